"""What `--help` shows as examples. Every line is parsed by a test, with the parser that reads a user's."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "optimize": (
        "astra optimize examples/silu_and_mul  # with rules; no model, no GPU needed",
        "astra optimize PROBLEM --model anthropic:MODEL --usd 5 --rounds 5",
        "astra optimize PROBLEM --model openai:MODEL@http://localhost:8000/v1 --device cuda:0 --screen sim:h200",
        "astra optimize --resume runs/NAME-TIME",
    ),
    "verify": (
        "astra verify examples/silu_and_mul mine.cu",
        "astra verify PROBLEM CANDIDATE --device cuda:0 --safety",
    ),
    "confirm": (
        "astra confirm PROBLEM runs/NAME-TIME/best --device cuda:0",
        "astra confirm PROBLEM mine.cu --json",
    ),
    "bench": (
        "astra bench examples/silu_and_mul  # the baseline against itself",
        "astra bench PROBLEM first.cu second.cu --device cuda:0",
    ),
    "init": (
        "astra init scale.cu",
        "astra init norm.cu --entry rms_norm --dtype bfloat16 --out problem",
    ),
    "extract": (
        "astra extract rmsnorm --from flashinfer",
        "astra extract 'ScaleKernel<half>::run' --from ~/sglang/python/sglang/jit_kernel",
        "astra extract silu_and_mul --from ~/vllm --at csrc/activation_kernels.cu:140 --out problem --compare",
    ),
    "export": (
        "astra export runs/NAME-TIME --to ~/vllm",
        'astra export runs/NAME-TIME --to ~/vllm --test "python -m pytest tests/kernels/test_activation.py"',
        "astra export runs/NAME-TIME --format flashinfer-bench --out dataset",
    ),
    "show": ("astra show runs/NAME-TIME", "astra show runs/NAME-TIME --json"),
    "report": (
        "astra report runs/NAME-TIME",
        "astra report runs/NAME-TIME --markdown --out result.md",
    ),
    "runs": ("astra runs", "astra runs ~/kernels/runs --last 10", "astra runs --json"),
    "replay": ("astra replay runs/NAME-TIME",),
    "schema": ("astra schema definition",),
    "doctor": ("astra doctor",),
    "worker": (
        "astra worker --spool SPOOL --device cuda:0  # jobs of `astra optimize --evaluator spool:SPOOL`",
        "astra worker JOB --cache ~/.cache/astra",
    ),
    "mcp": ("astra mcp --root ~/kernels --device sim:h200",),
    "completion": (
        "astra completion bash > ~/.local/share/bash-completion/completions/astra",
        "astra completion zsh > ~/.zfunc/_astra  # a directory of $fpath",
        "astra completion fish > ~/.config/fish/completions/astra.fish",
    ),
}


def examples_of(verb: str) -> str:
    """The examples of a verb, as the Markdown that stands below its options."""
    return "**Examples**\n\n```console\n" + "\n".join(EXAMPLES[verb]) + "\n```"
