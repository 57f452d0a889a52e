import pytest


@pytest.mark.parametrize("num_tokens", [1, 5, 61])
@pytest.mark.parametrize("hidden_size", [48, 520])
def check_scale_rows(num_tokens, hidden_size):
    """Would compare torch.ops.serving_kernel.scale_rows with x * scale[:, None]."""
