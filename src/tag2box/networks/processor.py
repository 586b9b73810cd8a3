"""What the processor truly has, where its flags promise more.

Some virtual machines show the AMX flags but not the tile palettes that go with them (CPUID leaf 0x1D).
oneDNN, which OpenVINO runs on, believes the flags, loads an empty tile configuration and dies of SIGILL in
its first bf16 convolution. Held below AMX by its own environment variable it runs; that must be set before
the first network is compiled in a process.
"""

import ctypes
import os
import platform
from collections.abc import Callable, Container

# (leaf, subleaf) -> eax, ebx, ecx, edx
Cpuid = Callable[[int, int], tuple[int, int, int, int]]

# oneDNN's variable under its name of today and its former one.
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
# The highest instruction set below AMX. Processors with less are not affected by it.
CAP = "AVX512_CORE_FP16"
# Limits under which oneDNN has no kernels for bf16 and f16. OpenVINO looks at the processor, and not
# at the limit: it would ask for them all the same, and fail or crash.
NO_HALVES = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}
WITHOUT_VNNI = {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
PALETTES = 0x1D


def guard_onednn() -> None:
    """Hold oneDNN below AMX in this process where AMX is broken, unless the user has set a limit."""
    if _limit():
        return
    if cap := onednn_cap(instructions(), _read_cpuid()):
        os.environ[VARIABLES[0]] = cap


def computes_halves() -> bool:
    """Whether the limit that is set, if one is, leaves oneDNN what it needs for bf16 and f16."""
    return _limit().upper() not in NO_HALVES


def saturates(features: Container[str], limit: str | None = None) -> bool:
    """Whether products of 8-bit numbers are added up in 16 bits, which overflow: x86 without VNNI does so.

    Parameters
    ----------
    features : container of str
        What the processor says that it has, in LLVM's names.
    limit : str, optional
        The instruction set that oneDNN is held to; the one that is set, if none is given.
    """
    limit = (_limit() if limit is None else limit).upper()
    if "sse2" not in features or limit in WITHOUT_VNNI:
        return "sse2" in features
    small = "avxvnni" in features  # the form of it for processors without AVX-512
    return not small if limit in {"AVX2_VNNI", "AVX2_VNNI_2"} else not (small or "avx512vnni" in features)


def _limit() -> str:
    """The instruction set that oneDNN is held to; empty where it is not."""
    return next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")


def identity() -> list[object]:
    """What tells one kind of processor from another, and how far oneDNN may use it."""
    import llvmlite.binding as llvm

    return [llvm.get_host_cpu_name(), sorted(instructions()), [os.environ.get(name) for name in VARIABLES]]


def onednn_cap(features: Container[str], cpuid: Cpuid | None) -> str | None:
    """The limit that oneDNN needs on a processor, None where it needs none.

    Parameters
    ----------
    features : container of str
        What the processor says that it has, in LLVM's names.
    cpuid : callable or None
        The CPUID instruction; None where it cannot be read: then AMX is not trusted.
    """
    if "amx-tile" not in features:
        return None
    return None if cpuid is not None and _has_palette(cpuid) else CAP


def _has_palette(cpuid: Cpuid) -> bool:
    """Whether the first palette exists and has tiles."""
    last_leaf = cpuid(0, 0)[0]  # what is asked beyond it is answered with it, on Intel
    if last_leaf < PALETTES or cpuid(PALETTES, 0)[0] < 1:
        return False
    eax, ebx, rows, _ = cpuid(PALETTES, 1)
    bytes_in_all, bytes_per_tile, bytes_per_row, tiles = eax & 0xFFFF, eax >> 16, ebx & 0xFFFF, ebx >> 16
    return min(rows, bytes_in_all, bytes_per_tile, bytes_per_row, tiles) > 0


def instructions() -> set[str]:
    """What the processor says that it has, in LLVM's names."""
    import llvmlite.binding as llvm

    try:
        return {name for name, there in llvm.get_host_cpu_features().items() if there}
    except RuntimeError:  # LLVM does not know this processor: none with AMX
        return set()


def _read_cpuid() -> Cpuid | None:
    """The CPUID instruction of this processor, in functions of a few bytes that LLVM makes."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return None
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly("".join(_REGISTER.format(i=i) for i in range(4)))
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    registers = [kind(engine.get_function_address(f"register{i}")) for i in range(4)]

    def cpuid(leaf: int, subleaf: int, _alive: object = engine) -> tuple[int, int, int, int]:
        eax, ebx, ecx, edx = (register(leaf, subleaf) for register in registers)
        return eax, ebx, ecx, edx

    return cpuid


_REGISTER = """
define i32 @register{i}(i32 %leaf, i32 %subleaf) {{
  %all = call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid",
    "={{eax}},={{ebx}},={{ecx}},={{edx}},{{eax}},{{ecx}}" (i32 %leaf, i32 %subleaf)
  %one = extractvalue {{ i32, i32, i32, i32 }} %all, {i}
  ret i32 %one
}}
"""
