"""The compiler: trace → tape → LLVM IR → object code → NumPy gufunc. Knows no mechanics."""
