class GrapeA(Encoding):
    """A penalty that grows with the distance, by slopes that keys or queries decide."""

    omega: nn.Parameter  # [layers, heads]
    u: nn.Parameter  # [layers, heads, head_dim], where keys decide
    w: nn.Parameter  # [layers, heads, head_dim], where queries decide

    def gates(self, x: Tensor, vectors: Tensor) -> Tensor:
        norm = vectors.norm(dim=-1, keepdim=True).clamp_min(self.config["eps"])
        return F.softplus(x @ (vectors / norm)[..., None] / x.shape[-1] ** 0.5)

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        # The slopes of ALiBi: of a power of two heads, then those between for the others.
        heads, below = q.shape[1], 2 ** (q.shape[1].bit_length() - 1)
        powers = [8 * (h + 1) / below for h in range(below)]
        powers += [4 * (2 * h + 1) / below for h in range(heads - below)]
        slopes = F.softplus(self.omega[self.layer]) * q.new_tensor(powers).neg().exp2()
        gates, decides = scores.new_zeros(1), self.config["gate"]
        if decides != "query":
            gates = gates + self.gates(k, self.u[self.layer]).transpose(2, 3)
        if decides != "key":
            gates = gates + self.gates(q, self.w[self.layer])
        distances = self.distance(rows).to(scores.dtype)
        return scores - distances * gates * slopes[:, None, None]
