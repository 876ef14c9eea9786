class Fox(Encoding):
    """A gate of each row and head: how much of earlier rows is kept."""

    w_f: nn.Parameter  # [layers, width, heads]
    b_f: nn.Parameter  # [layers, heads]

    def bias(self, rows: Rows) -> Tensor:
        gates = F.logsigmoid(rows.input @ self.w_f[self.layer] + self.b_f[self.layer])
        kept = gates.cumsum(1).transpose(1, 2)
        return kept[..., None] - kept[..., None, :]
