"""From LLVM IR to object code, functions in this process, and calls of them."""
