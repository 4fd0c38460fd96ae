"""From a tape of operations to LLVM IR."""
