class Cope(Encoding):
    """Positions count tokens by gates; each count has a learned vector."""

    table: nn.Parameter  # [layers, npos, head_dim]

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        table = self.table[self.layer]
        gates = torch.sigmoid(
            scores if self.config["gate_scaled"] else scores / scale
        ).tril()
        counts = gates.flip(-1).cumsum(-1).flip(-1).clamp_max(len(table) - 1).tril()
        by_count = q @ table.T
        low, high = counts.detach().floor(), counts.detach().ceil()
        below, above = by_count.gather(-1, low.long()), by_count.gather(-1, high.long())
        return scores + below + (above - below) * (counts - low)
