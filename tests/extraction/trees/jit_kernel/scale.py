from jit.build import load_jit, template_arguments


def module(dtype, threads):
    args = template_arguments(dtype, threads)
    return load_jit(
        "scale",
        *args,
        cuda_files=["scale.cuh"],
        cuda_wrappers=[("scale_by", f"ScaleKernel<{args}>::run")],
    )
