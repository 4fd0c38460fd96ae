"""The force laboratory: experiments with a value, a threshold and a verdict each."""
