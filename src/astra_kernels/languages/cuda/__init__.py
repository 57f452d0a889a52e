"""CUDA C++: find the compiler, build in a sandbox, read what the build produced."""
