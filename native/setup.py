"""Build of the C++ operators; pyproject.toml has the rest.

MOORING_NATIVE_SANITIZE=1 builds with the address and undefined-behaviour sanitizers, for `make soak`.
"""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

SOURCES = ("ops", "kernels_base", "kernels_avx2", "kernels_avx512")
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
SANITIZE = SANITIZE if os.environ.get("MOORING_NATIVE_SANITIZE") == "1" else []

setup(
    ext_modules=[
        CppExtension(
            "mooring_native._C",
            [f"csrc/{name}.cpp" for name in SOURCES],
            include_dirs=["csrc"],
            extra_compile_args=["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", *SANITIZE],
            extra_link_args=SANITIZE,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
