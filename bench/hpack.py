"""How many bytes a header costs that HTTP/2's table of headers does not keep (RFC 7541).

nghttp2, by which the operator speaks, never puts `authorization` there: each request carries it again.
"""

# Appendix B: how many bits the characters of a bearer token take.
BITS = {c: n for n, chars in ((5, "012aceiost"), (6, " -./3456789=A_bdfghlmnpru"), (7, "BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"), (8, "XZ"))
        for c in chars}


def integer(value, prefix):
    """Bytes of an integer whose first byte has room for that many bits (section 5.1)."""
    value -= (1 << prefix) - 1
    return 1 if value < 0 else 2 + (max(value.bit_length(), 1) - 1) // 7


def authorization(token):
    """Its name by number 23 of the static table, its value in Huffman's code."""
    value = -(-sum(BITS[c] for c in f"Bearer {token}") // 8)
    return integer(23, 4) + integer(value, 7) + value
