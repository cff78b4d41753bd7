"""Build of the C++ operators; pyproject.toml has the rest."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

SOURCES = ("ops", "kernels_base", "kernels_avx2", "kernels_avx512")

setup(
    ext_modules=[
        CppExtension(
            "mooring_native._C",
            [f"csrc/{name}.cpp" for name in SOURCES],
            include_dirs=["csrc"],
            extra_compile_args=["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
