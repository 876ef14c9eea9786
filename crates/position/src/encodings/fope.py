class Fope(Encoding):
    """Pairs of channels of q and k read sums of waves."""

    cos_coef: nn.Parameter  # [layers, kv_heads, waves, pairs], where they are learned
    sin_coef: nn.Parameter  # [layers, kv_heads, waves, pairs]

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        if self.config["learned"]:
            coefficients = [self.cos_coef[self.layer], self.sin_coef[self.layer]]
        else:
            coefficients = [q.new_tensor(c) for c in self.config["coefficients"]]
        kept = coefficients[0].shape[-2]
        angles = self.angles(positions)[:, :kept]
        sums = []
        for wave, by in zip((angles.cos(), angles.sin()), coefficients):
            by = by.repeat_interleave(q.shape[1] // len(by), 0)
            sum_of_waves = wave.to(q.dtype) @ by  # [heads, length, pairs]
            others = q.shape[-1] // 2 - by.shape[-1]
            sums.append(
                F.pad(sum_of_waves, (0, others), value=1.0) * self.config["factor"]
            )
        return rotate(q, *sums)

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.query(k, positions, rows)
