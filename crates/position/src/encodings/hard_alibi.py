class HardAlibi(Encoding):
    """Of the first heads, head h sees keys at distances of at most h alone."""

    def bias(self, rows: Rows) -> Tensor:
        heads = self.config["heads"]
        masked = self.config.get("masked_heads", heads // 2)
        n = self.distance(rows)
        head = torch.arange(heads, device=n.device)[:, None, None]
        hides = (head < masked) & (n > head)
        return torch.zeros_like(hides, dtype=rows.input.dtype).masked_fill(
            hides, -math.inf
        )
