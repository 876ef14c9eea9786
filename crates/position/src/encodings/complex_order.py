class ComplexOrder(Encoding):
    """Each token is a wave of the position, in place of its embedding."""

    r: nn.Parameter  # [vocab_size or 1, width / 2 or 1], the amplitudes
    w: nn.Parameter  # the frequencies
    th: nn.Parameter  # the phases

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        r, w, th = (t[ids] if len(t) > 1 else t for t in (self.r, self.w, self.th))
        angles = w * self.places(positions).to(w.dtype)[:, None] + th
        half = (*x.shape[:2], x.shape[2] // 2)
        return torch.cat(
            [(r * angles.cos()).expand(half), (r * angles.sin()).expand(half)], -1
        )
