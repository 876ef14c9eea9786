class Recursive(Encoding):
    """Each position's vector is a learned function of the one before."""

    # w, w_x [width, width] and b [width], or a network of w1, b1, w2 and b2.
    p0: nn.Parameter  # [width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        if self.config["variant"] == "rnn":
            state, states = self.p0.expand(len(x), -1), []
            for driven in (x @ self.w_x + self.b).unbind(1):
                state = torch.tanh(state @ self.w + driven)
                states.append(state)
            return x + torch.stack(states, 1)
        vectors = [self.p0]
        for _ in range(int(positions.max())):
            p = vectors[-1]
            if self.config["variant"] == "linear":
                vectors.append(p @ self.w + self.b)
            else:
                vectors.append(
                    p + torch.tanh(p @ self.w1 + self.b1) @ self.w2 + self.b2
                )
        return x + torch.stack(vectors)[positions.long()]
