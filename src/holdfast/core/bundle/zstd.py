"""The zstd module: Python's own from 3.14 on, before that its backport."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter as CompressionParameter
    from compression.zstd import DecompressionParameter as DecompressionParameter
    from compression.zstd import ZstdCompressor as ZstdCompressor
    from compression.zstd import ZstdDecompressor as ZstdDecompressor
    from compression.zstd import ZstdError as ZstdError
else:
    from backports.zstd import CompressionParameter as CompressionParameter
    from backports.zstd import DecompressionParameter as DecompressionParameter
    from backports.zstd import ZstdCompressor as ZstdCompressor
    from backports.zstd import ZstdDecompressor as ZstdDecompressor
    from backports.zstd import ZstdError as ZstdError
