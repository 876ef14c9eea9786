class Rope(Encoding):
    """Turns q and k by learned frequencies, exp(log_frequencies / 16)."""

    log_frequencies: nn.Parameter  # [layers, 1 or kv_heads, bands]

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        inv_freq = (self.log_frequencies[self.layer].double() / 16).exp()
        angles = self.places(positions)[:, None] * inv_freq[:, None]
        angles = angles.repeat_interleave(q.shape[1] // len(angles), 0)
        return rotate(q, angles.cos().to(q.dtype), angles.sin().to(q.dtype))

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.query(k, positions, rows)
