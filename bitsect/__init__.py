"""bitsect: which change of a training stack changed which bits."""

__version__ = "0.1.0"
