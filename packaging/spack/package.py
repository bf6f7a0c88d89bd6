# SPDX-License-Identifier: Apache-2.0
"""Topknot for Spack.

    spack repo create ~/topknot-repo topknot
    mkdir -p ~/topknot-repo/packages/topknot
    cp packaging/spack/package.py ~/topknot-repo/packages/topknot/
    spack repo add ~/topknot-repo
    cd CLONE && spack dev-build topknot@main
"""

from spack.package import *


class Topknot(CMakePackage):
    """Sparse allreduce with error feedback, for data-parallel training over slow networks."""

    license("Apache-2.0")

    version("main")  # of a clone: there is no release to fetch yet

    variant("mpi", default=True, description="Ranks on several hosts, by MPI")
    variant("torch", default=True, description="The trainer, `topknot train`")
    variant("shared", default=True, description="Build shared libraries")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("highway@1.0.3:")
    depends_on("xxhash@0.8:")
    depends_on("cli11@2.1:")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("tomlplusplus@3.3:")
    depends_on("zlib-api")
    depends_on("jpeg")
    depends_on("utf8proc")
    depends_on("libsndfile")
    depends_on("mpi", when="+mpi")
    # The trainer needs libtorch, which is in this package, and nothing of Python at run time.
    depends_on("py-torch@2.13 ~cuda ~rocm", when="+torch")

    conflicts("%gcc@:11", msg="C++20 as Topknot uses it needs GCC 12")
    conflicts("%clang@:15", msg="C++20 as Topknot uses it needs Clang 16")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("TOPKNOT_TESTS", self.run_tests),
            self.define("TOPKNOT_BENCH", False),
            self.define("TOPKNOT_EXAMPLES", False),
            self.define("TOPKNOT_INSTALL", True),
            self.define("TOPKNOT_MPI", "ON" if self.spec.satisfies("+mpi") else "OFF"),
            self.define("TOPKNOT_TORCH", "ON" if self.spec.satisfies("+torch") else "OFF"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
        ]
        if self.spec.satisfies("+torch"):
            folder = join_path(python_platlib, "torch", "share", "cmake", "Torch")
            args.append(self.define("Torch_DIR", join_path(self.spec["py-torch"].prefix, folder)))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_the_law(self):
        """Exits with 0 only where no rank lost a coordinate and all hold the same bits."""
        topknot = Executable(self.prefix.bin.topknot)
        topknot("bench", "allreduce", "--workers", "3", "--n", "10000", "--collective", "all")
