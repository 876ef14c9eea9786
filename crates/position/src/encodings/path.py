class Path(Encoding):
    """Rows between query and key reflect the key: k -> k - beta w (w·k)."""

    w_down: (
        nn.Parameter
    )  # [layers, width, rank], or w [layers, width, kv_heads * head_dim]
    w_up: nn.Parameter  # [layers, rank, kv_heads * head_dim]
    conv: nn.Parameter  # [layers, kernel, kv_heads * head_dim]
    w_beta: nn.Parameter  # [layers, width, kv_heads]
    b_beta: nn.Parameter  # [layers, kv_heads]

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        x, layer = rows.input, self.layer
        y = (
            x @ self.w_down[layer] @ self.w_up[layer]
            if self.config["low_rank"]
            else x @ self.w[layer]
        )
        w = (
            F.silu(convolved(y, self.conv[layer]))
            .unflatten(-1, (-1, q.shape[-1]))
            .transpose(1, 2)
        )
        w = w * (w.square().sum(-1, keepdim=True) + self.config["eps"]).rsqrt()
        beta = 2 * torch.sigmoid(x @ self.w_beta[layer] + self.b_beta[layer]).transpose(
            1, 2
        )
        times = q.shape[1] // w.shape[1]
        w, beta = w.repeat_interleave(times, 1), beta.repeat_interleave(times, 1)
        columns = []
        # Queries walk back over the rows: a product with the key, then a reflection.
        for row in range(q.shape[2] - 1, -1, -1):
            columns.append(q @ k[:, :, row, :, None])
            along = q @ w[:, :, row, :, None] * beta[:, :, row, None, None]
            q = torch.where(
                torch.arange(q.shape[2], device=q.device)[:, None] >= row,
                q - along * w[:, :, row, None, :],
                q,
            )
        return torch.cat(columns[::-1], -1) * scale
