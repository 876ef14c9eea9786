"""@TITLE@"""

# + ast.parse(
import ast
# -
import ctypes
import json
import math
import pathlib
# + re.sub(
import re
# -
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def load(folder: str | pathlib.Path) -> "Gpt":
    """The model of a folder with its weights, ready to read texts."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())["torch"]
    data = (pathlib.Path(folder) / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = (start + at for at in about["data_offsets"])
            numbers = torch.frombuffer(bytearray(data[first:last]), dtype=torch.float32)
            tensors[name] = numbers.reshape(about["shape"])
    model = Gpt(config)
    model.load_state_dict(tensors)
    return model.eval()


def save(model: "Gpt", folder: str | pathlib.Path) -> None:
    """Writes the weights over those of the folder; `longwave import` reads it."""
    header, data = {}, b""
    for name, tensor in model.state_dict().items():
        tensor = tensor.detach().to("cpu", torch.float32).contiguous()
        numbers = ctypes.string_at(tensor.data_ptr(), 4 * tensor.numel())
        places = [len(data), len(data) + len(numbers)]
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": places,
        }
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(folder) / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


# + complex
def matrix(weight: Tensor, inputs: int = 1, outputs: int = 1) -> Tensor:
    """The complex map A + iB, stored as [A | B], as the real one [[A, B], [-B, A]].

    Inputs and outputs may be several groups of channels, each real and then imaginary.
    """
    half, columns = weight.shape
    a, b = weight.view(half, outputs, 2, -1).unbind(2)
    turned = torch.stack([-b, a], 2).view(inputs, -1, columns)
    return torch.cat([weight.view(inputs, -1, columns), turned], 1).view(-1, columns)


# -
# + rotate(
def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Turns pairs of the first channels: (a, b) -> (a cos - b sin, a sin + b cos)."""
    size = 2 * cos.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    pairs = turned.unflatten(-1, (-1, 2)).unbind(-1)
    a, b = pairs if interleaved else turned.chunk(2, -1)
    pair = [a * cos - b * sin, a * sin + b * cos]
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned, rest], -1)


# -
# + between(
def between(table: Tensor, at: Tensor) -> Tensor:
    """Rows of a table at places [count], also between two rows."""
    if at.numel() and at.max() >= len(table):
        raise ValueError(f"row {int(at.max())} of a table of {len(table)} rows")
    low = at.floor()
    share = (at - low).to(table.dtype)[:, None]
    low = low.long()
    high = (low + 1).clamp_max(len(table) - 1)
    return table[low] + (table[high] - table[low]) * share


# -
# + table_rows(
def table_rows(table: Tensor, keys: dict, at: Tensor) -> Tensor:
    """Rows by position; `past_table` says what a position past the table reads."""
    size, past = len(table), keys.get("past_table", "error")
    if past == "interpolate":
        at = at / max(keys.get("length", len(at)) / size, 1)
    if past == "segment":
        at = at % size
    if past == "hierarchical":
        share = keys["alpha"] / (1 - keys["alpha"])
        upper = between(table, (at / size).floor()) - table[0]
        return between(table, at % size) + share * upper
    return between(table, at)


# -
# + bucket(
def bucket(distance: Tensor, buckets: int, farthest: int) -> Tensor:
    """T5's buckets: half of them a distance each, the others of growing width."""
    exact = buckets // 2
    n = distance.floor()
    share = (n.clamp_min(1) / exact).log() / math.log(farthest / exact)
    far = (exact + (share * (buckets - exact) + 1e-9).floor()).clamp_max(buckets - 1)
    return torch.where(n < exact, n, far).long()


# -
# + convolved( canon
def convolved(x: Tensor, taps: Tensor) -> Tensor:
    """Sum over t of taps[t] * x[row - t]; rows before the first are 0."""
    shifted = [
        F.pad(x, (0, 0, t, 0))[:, : x.shape[1]] * tap for t, tap in enumerate(taps)
    ]
    return torch.stack(shifted).sum(0)


# -
# + geometry
def mapped(positions: Tensor, rule: dict) -> Tensor:
    """Where rows are read: in chunks, in groups, closer together, up to a limit."""
    if "chunk" in rule:
        positions = positions % rule["chunk"]
    if "group" in rule:
        positions = (positions / rule["group"]).floor()
    positions = positions * rule.get("scale", 1.0) + rule.get("offset", 0.0)
    return positions.clamp_max(rule.get("limit") or math.inf)


# -
@dataclass
class Rows:
    """The rows of a text, as the attention of a layer sees them."""

    positions: Tensor  # [length], float64
    input: Tensor  # [batch, length, width], normalised
    # + .key_matrix
    key_matrix: Tensor  # [width, kv_heads * head_dim], what makes keys of the input
    # -


class Encoding(nn.Module):
    """A positional encoding: what it does at each place where one may act.

    `config` holds its numbers as the text at hand is read; `layer` is the number of the
    layer among those that have it.
    """

    config: dict
    layer: int

    def __init__(self, shapes: dict[str, list[int]]) -> None:
        super().__init__()
        for name, shape in shapes.items():
            # + nested
            module: nn.Module = self
            *path, name = name.split(".")
            for part in path:
                if part not in dict(module.named_children()):
                    module.add_module(part, nn.Module())
                module = module.get_submodule(part)
            module.register_parameter(name, nn.Parameter(torch.empty(shape)))
            # -
            # + !nested
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
            # -

    # + .own(
    def own(self, name: str) -> Tensor:
        """A parameter, or the numbers that an extension made of it."""
        parameter, made = self.get_parameter(name), self.config.get("made", {})
        return parameter.new_tensor(made[name]) if name in made else parameter

    # -
    # + .places(
    def places(self, positions: Tensor) -> Tensor:
        """Positions over what an extension divides them by."""
        return positions / self.config["interpolation"]

    # -
    # + .distance( slopes
    def distance(self, rows: Rows) -> Tensor:
        """i - j of query i and key j, [length, length], float64; 0 if j lies ahead."""
        n = (rows.positions[:, None] - rows.positions).clamp_min(0)
        return n / self.config["interpolation"]

    # -
    # + .angles( rotation
    def angles(self, positions: Tensor) -> Tensor:
        """Positions times frequencies, [length, bands], float64."""
        # + start
        start = self.config.get("start")
        if start:
            first = (positions < start["below"])[:, None]
            slow, fast = (
                positions.new_tensor(of["inv_freq"]) for of in (self.config, start)
            )
            return positions[:, None] * torch.where(first, fast, slow)
        # -
        return positions[:, None] * positions.new_tensor(self.config["inv_freq"])

    # -
    # + embed
    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        """Before a block: changes the hidden state [batch, length, width]."""
        # + vectors
        if "vectors" in self.config:
            x = x + x.new_tensor(self.config["vectors"])[: len(positions)]
        # -
        return x

    # -
    # + rotation
    def turn(self, x: Tensor, positions: Tensor, rows: Rows, sign: int) -> Tensor:
        """Turns q (sign 1) or k (sign -1), [batch, heads, length, head_dim]."""
        rotation = self.config.get("rotation")
        if rotation is None:
            return x
        angles = self.angles(positions)
        factor = self.config["factor"] * torch.ones_like(angles)
        # + decay
        if "zeta" in rotation:
            # q grows with the position as k shrinks, around the middle of the text.
            middle = (rows.positions.min() + rows.positions.max()) / 2
            middle = rotation.get("centre", middle)
            power = sign * (positions[:, None] - middle) / rotation["scale_base"]
            factor = factor * positions.new_tensor(rotation["zeta"]) ** power
        # -
        cos, sin = factor * angles.cos(), factor * angles.sin()
        return rotate(x, cos.to(x.dtype), sin.to(x.dtype), rotation["interleaved"])

    # -
    # + query
    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """Another map of q, [batch, heads, length, head_dim]."""
        return q

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """The same of k, [batch, kv_heads, length, head_dim]."""
        return k

    # -
    # + scores
    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        """Changes the scaled scores [batch, heads, queries, keys]."""
        return scores

    # -
    # + bias
    def bias(self, rows: Rows) -> Tensor | float:
        """What is added to the scores, such as [heads, queries, keys]."""
        bias: Tensor | float = 0.0
        # + slopes
        if "slopes" in self.config:
            slopes = rows.positions.new_tensor(self.config["slopes"])[:, None, None]
            bias = bias - (slopes * self.distance(rows)).to(rows.input.dtype)
        # -
        # + table linear
        n = torch.arange(len(rows.positions), device=rows.input.device)
        n = (n[:, None] - n).clamp_min(0)
        # -
        # + table
        if "table" in self.config:  # [heads, distances]
            bias = bias + rows.input.new_tensor(self.config["table"])[:, n]
        # -
        # + linear
        for name, (places, tables) in self.config.get("linear", {}).items():
            # A sum of tables by distance, each times one number of a parameter.
            numbers = self.get_parameter(name).flatten()[places]
            of_heads = torch.einsum("p,phn->hn", numbers, rows.input.new_tensor(tables))
            bias = bias + of_heads[:, n]
        # -
        return bias

    # -
    # + values
    def from_weights(self, weights: Tensor, rows: Rows) -> Tensor | float:
        """What is added to the output of the heads, from the weights of the keys."""
        return 0.0

    # -
    # + sink
    def sink_logit(self) -> Tensor | None:
        """A logit [heads] that takes its share of the softmax for no value."""
        return None

    # -


# @ encodings
class Norm(nn.Module):
    """@NORM@"""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(c["width"] // HALF))
        # + layer_norm dyt
        self.bias = nn.Parameter(torch.empty(c["width"]))
        # -
        # + dyt
        self.factor = nn.Parameter(torch.empty(1))
        # -
        # + !dyt
        self.eps = c["norm_eps"]
        # -

    def forward(self, x: Tensor) -> Tensor:
        # + complex
        gain = torch.cat([self.gain, self.gain])  # of real and imaginary channels
        # -
        # + !complex
        gain = self.gain
        # -
        # + rms_norm
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * gain
        # -
        # + layer_norm
        return F.layer_norm(x, x.shape[-1:], gain, self.bias, self.eps)
        # -
        # + dyt
        return torch.tanh(x * self.factor) * gain + self.bias
        # -


class Attention(nn.Module):
    """@ATTENTION@"""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            c["heads"],
            c["kv_heads"],
            c["head_dim"],
        )
        inner = self.heads * self.head_dim
        packed = inner + 2 * self.kv_heads * self.head_dim  # q, k and v side by side
        self.qkv = nn.Parameter(torch.empty(c["width"] // HALF, packed))
        self.output = nn.Parameter(torch.empty(inner // HALF, c["width"]))
        # + qkv_bias
        self.qkv_bias = nn.Parameter(torch.empty(packed))
        # -
        # + qk_key qk_cosine
        self.logit_scale = nn.Parameter(torch.empty(self.heads))
        # -
        # + qk_rms
        self.query_gain = nn.Parameter(torch.empty(self.head_dim // HALF))
        self.key_gain = nn.Parameter(torch.empty(self.head_dim // HALF))
        self.eps = c["qk_norm_eps"]
        # -
        # + remainder_bias
        self.remainder = nn.Parameter(torch.empty(inner))
        # -
        # + gate
        self.gate = nn.Parameter(torch.empty(c["width"], c["gate_columns"]))
        # -
        # + gate_bias
        self.gate_bias = nn.Parameter(torch.empty(c["gate_columns"]))
        # -
        # + output_norm
        self.output_norm = Norm(c)
        # -

    # + qk_rms
    def normalised(self, x: Tensor, gain: Tensor) -> Tensor:
        # + complex
        gain = torch.cat([gain, gain])  # of real and imaginary channels
        # -
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * gain

    # -
    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        how: dict,
        encodings: list[Encoding],
        # + factors
        factors: dict[str, Tensor],
        # -
    ) -> Tensor:
        """x [batch, length, width], normalised; `how` is the layer in config.json."""
        batch, length, _ = x.shape
        groups = self.heads // self.kv_heads
        # + complex
        qkv = matrix(self.qkv, 1, self.heads + 2 * self.kv_heads)
        output = matrix(self.output, self.heads, 1)
        # -
        # + !complex
        qkv, output = self.qkv, self.output
        # -
        packed = x @ qkv
        # + qkv_bias
        packed = packed + self.qkv_bias
        # -
        packed = packed.view(batch, length, -1, self.head_dim).transpose(1, 2)
        q, k, v = packed.split([self.heads, self.kv_heads, self.kv_heads], 1)
        v = v.repeat_interleave(groups, 1)
        # + qk_rms
        q, k = self.normalised(q, self.query_gain), self.normalised(k, self.key_gain)
        # -
        # + qk_cosine
        q = F.normalize(q, dim=-1, eps=1e-6)
        # -
        # + qk_key qk_cosine
        k = F.normalize(k, dim=-1, eps=1e-6)
        q = q * self.logit_scale[:, None, None]
        scale = how["logit_scale"]
        # -
        # + !qk_key&!qk_cosine&!linear_attention
        scale = how["logit_scale"] / math.sqrt(self.head_dim)
        # -
        # + .key_matrix
        first, last = (
            self.heads * self.head_dim,
            (self.heads + self.kv_heads) * self.head_dim,
        )
        rows = Rows(positions, x, qkv[:, first:last])
        # -
        # + !.key_matrix
        rows = Rows(positions, x)
        # -
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        # + window
        if how["window"] is not None:  # but the first keys stay visible
            far = positions[:, None] - positions >= how["window"]
            later = later | (far & (positions >= how["sinks"]))
        # -

        # + linear_attention
        # Products of elu(x) + 1; turned by the encodings in the numerator alone.
        q, k = F.elu(q) + 1, (F.elu(k) + 1).repeat_interleave(groups, 1)
        sums = (q @ k.transpose(-1, -2)).masked_fill(later, 0).sum(-1, keepdim=True)
        # + rotation
        for encoding in encodings:
            q, k = encoding.turn(q, positions, rows, 1), encoding.turn(
                k, positions, rows, -1
            )
        # -
        weights = (q @ k.transpose(-1, -2)).masked_fill(later, 0) / sums
        out = weights @ v

        # -
        # + !linear_attention
        def read_at(of_query: Tensor, of_key: Tensor) -> tuple[Tensor, Tensor]:
            """q and k of all heads as the encodings make them at these positions."""
            at_q, at_k = q, k
            # + rotation
            for encoding in encodings:
                at_q = encoding.turn(at_q, of_query, rows, 1)
                at_k = encoding.turn(at_k, of_key, rows, -1)
            # -
            # + query
            for encoding in encodings:
                at_q = encoding.query(at_q, of_query, rows)
                at_k = encoding.key(at_k, of_key, rows)
            # -
            # + log_n
            seen = torch.arange(1, length + 1, device=x.device).double().log()
            log_n = how["log_n"]
            if log_n in ("trained", "post_hoc"):
                seen = seen / math.log(how["train_length"])
                seen = seen.clamp_min(1) if log_n == "post_hoc" else seen
                at_q = at_q * seen.to(x.dtype)[:, None]
            # + log_n_law
            if log_n == "shifted":  # ln(a + keys) over ln(a + L)
                seen = (how["a"] + seen.exp()).log()
                seen = (seen / math.log(how["a"] + how["train_length"])).clamp_min(1)
                at_q = at_q * seen.to(x.dtype)[:, None]
            if log_n == "info":  # the root of 1 - keys^(-2 / head_dim) over that of L
                power = -2 / self.head_dim
                seen = (1 - (power * seen).exp()) / (1 - how["train_length"] ** power)
                at_q = at_q * seen.sqrt().clamp_min(1).to(x.dtype)[:, None]
            # -
            # -
            # + log_n_learned
            if how["log_n"] == "learned":
                seen = (
                    (~later).sum(-1).double().log().to(x.dtype)
                )  # keys that a query sees
                seen = factors["s"][how["row"], :, None] * seen
                # + log_n_bias
                seen = seen + factors["b"][how["row"], :, None]
                # -
                at_q = at_q * seen[..., None]
            # -
            return at_q, at_k.repeat_interleave(groups, 1)

        # + geometry
        rules = how["maps"] or [[{}, {}]]
        first, *others = [
            read_at(mapped(positions, a), mapped(positions, b)) for a, b in rules
        ]
        scores = first[0] @ first[1].transpose(-1, -2)
        i, j = positions[:, None], positions
        for entry, (of_query, of_key) in enumerate(others, 1):
            if (
                how["near"] is not None
            ):  # entries by distance, or by how many chunks lie between
                chosen = (i - j >= how["near"]).long()
            else:
                chosen = (
                    (i / how["chunk"]).floor() - (j / how["chunk"]).floor()
                ).clamp(0, 2)
            scores = torch.where(
                chosen == entry, of_query @ of_key.transpose(-1, -2), scores
            )
        scores = scores * scale
        q, k = first
        # -
        # + !geometry
        q, k = read_at(positions, positions)
        scores = q @ k.transpose(-1, -2) * scale
        # -
        # + scores
        for encoding in encodings:
            scores = encoding.scores(scores, q, k, scale, rows)
        # -
        # + bias
        for encoding in encodings:
            scores = scores + encoding.bias(rows)
        # -
        # + temperature head_scale
        sharper = torch.ones(self.heads, dtype=x.dtype, device=x.device)
        # -
        # + temperature
        sharper = sharper / x.new_tensor(how["temperature"])
        # -
        # + head_scale
        if how["head_scale"] is not None:
            sharper = sharper * factors["scale"][how["head_scale"]]
        # -
        # + temperature head_scale
        scores = scores * sharper[:, None, None]
        # -
        scores = scores.masked_fill(later, -math.inf)
        # + stick_breaking
        # + !attend_current
        own = torch.eye(length, dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(own, -math.inf)
        # -
        # Each key, the nearest first, breaks off its share of what is left.
        left = F.logsigmoid(-scores)
        nearer = left.flip(-1).cumsum(-1).flip(-1) - left
        weights = (F.logsigmoid(scores) + nearer).exp()
        rest = left.sum(-1, keepdim=True).exp()
        # -
        # + softmax
        # + sink
        sinks = [
            sink
            for encoding in encodings
            if (sink := encoding.sink_logit()) is not None
        ]
        for sink in sinks:
            # + temperature head_scale
            sink = sink * sharper
            # -
            column = sink[:, None, None].expand(batch, -1, length, 1)
            scores = torch.cat([scores, column], -1)
        # -
        weights = scores.softmax(-1)
        # + sink
        weights = weights[..., :length]
        # -
        # -
        out = weights @ v
        # + values
        for encoding in encodings:
            out = out + encoding.from_weights(weights, rows)
        # -
        # + remainder_value
        out = out + rest * v
        # -
        # + remainder_bias
        out = out + rest * self.remainder.view(self.heads, 1, self.head_dim)
        # -
        # -
        out = out.transpose(1, 2)
        # + gate
        gates = x @ self.gate
        # + gate_bias
        gates = gates + self.gate_bias
        # -
        out = out * torch.sigmoid(gates).view(batch, length, self.heads, -1)
        # -
        # + output_norm
        return self.output_norm(out.flatten(2) @ output)
        # -
        # + !output_norm
        return out.flatten(2) @ output
        # -


class FeedForward(nn.Module):
    """@FEED_FORWARD@"""

    def __init__(self, c: dict) -> None:
        super().__init__()
        width, inner = c["width"], c["feed_forward_width"]
        # + swiglu
        self.input = nn.Parameter(torch.empty(width // HALF, 2 * inner))  # gate and up
        # -
        # + !swiglu
        self.input = nn.Parameter(torch.empty(width // HALF, inner))
        # -
        self.output = nn.Parameter(torch.empty(inner // HALF, width))

    def forward(self, x: Tensor) -> Tensor:
        # + complex
        x = x @ matrix(self.input, 1, GATES)
        # -
        # + !complex
        x = x @ self.input
        # -
        # + gelu
        x = F.gelu(x)
        # -
        # + relu_squared
        x = F.relu(x).square()
        # -
        # + swiglu
        gate, up = x.chunk(2, -1)
        x = F.silu(gate) * up
        # -
        # + complex
        return x @ matrix(self.output)
        # -
        # + !complex
        return x @ self.output
        # -


# + canon
class Canon(nn.Module):
    """Adds a causal convolution over four rows, channel by channel."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(4, c["width"] // HALF))

    def forward(self, x: Tensor) -> Tensor:
        # + complex
        return x + convolved(x, torch.cat([self.w, self.w], 1))
        # -
        # + !complex
        return x + convolved(x, self.w)
        # -


# -
class Block(nn.Module):
    """Attention and feed-forward, each added to the residual stream."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.attention_norm, self.attention = Norm(c), Attention(c)
        self.feed_forward_norm, self.feed_forward = Norm(c), FeedForward(c)
        # + canon_attention
        self.attention_canon = Canon(c)
        # -
        # + canon_feed_forward
        self.feed_forward_canon = Canon(c)
        # -


class Gpt(nn.Module):
    """@GPT@"""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.config = c
        self.embedding = nn.Parameter(torch.empty(c["vocab_size"], c["width"]))
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = Norm(c)
        # + untied
        self.head = nn.Parameter(torch.empty(c["width"], c["vocab_size"]))
        # -
        # Named as in the file: position.encodings.0.Rope and so on.
        made = [globals()[e["class"]](e["shapes"]) for e in c["encodings"]]
        names = [e["name"] for e in c["encodings"]]
        encodings = [nn.ModuleDict({name: e}) for name, e in zip(names, made)]
        self.position = nn.ModuleDict({"encodings": nn.ModuleList(encodings)})
        self.encodings: list[Encoding] = [*made]
        # + factors
        for name, shapes in c["factors"].items():
            numbers = {
                part: nn.Parameter(torch.empty(shape)) for part, shape in shapes.items()
            }
            self.position[name] = nn.ParameterDict(numbers)
        # -

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids [batch, length] -> logits [batch, length, vocab_size]."""
        # + readings
        # Longer texts are read otherwise: the least length of the export that holds it.
        longest = [
            how for how in self.config["readings"] if how["length"] >= ids.shape[1]
        ]
        if not longest:
            raise ValueError(
                f"a text of {ids.shape[1]} tokens: export with a larger --length"
            )
        how = longest[0]
        # -
        # + !readings
        how = self.config["readings"][0]
        # -
        # + memory
        kept: list[Tensor | None] = [None] * len(self.blocks)
        states, start = [], 0
        for piece in ids.split(how["segment"], 1):
            states.append(self.hidden(piece, how, start, kept))
            start += piece.shape[1]
        x = torch.cat(states, 1)
        # -
        # + segments
        # Segments of the text are texts of their own.
        x = torch.cat(
            [
                self.hidden(piece, how)
                for piece in ids.split(how["segment"] or ids.shape[1], 1)
            ],
            1,
        )
        # -
        # + !memory&!segments
        x = self.hidden(ids, how)
        # -
        # + untied
        return self.norm(x) @ self.head
        # -
        # + !untied
        return self.norm(x) @ self.embedding.T
        # -

    # + memory
    def hidden(
        self, ids: Tensor, how: dict, start: int, kept: list[Tensor | None]
    ) -> Tensor:
        """The state [batch, length, width] of a segment that begins at `start`.

        `kept` has the last inputs of every block, which the segment sees too.
        """

    # -
    # + !memory
    def hidden(self, ids: Tensor, how: dict) -> Tensor:
        """The state [batch, length, width] after the last block."""
        # -
        x = self.embedding[ids]
        # + positions
        positions = torch.tensor(how["positions"], dtype=torch.float64, device=x.device)
        positions = positions[: ids.shape[1]]
        # -
        # + !positions
        positions = torch.arange(ids.shape[1], dtype=torch.float64, device=x.device)
        # -
        # + memory
        positions = positions + start
        # -
        # + factors
        factors = {}
        for name in self.config["factors"]:
            factors |= dict(self.position[name].items())
        # -
        # + dropout memory
        for number, (block, layer) in enumerate(zip(self.blocks, how["layers"])):
        # -
        # + !dropout&!memory
        for block, layer in zip(self.blocks, how["layers"]):
        # -
            encodings = []
            for entry, count in layer["encodings"]:
                numbers = how["encodings"][entry]
                encoding = self.encodings[numbers["of"]]
                encoding.config, encoding.layer = numbers, count
                encodings.append(encoding)
            # + embed
            for encoding in encodings:
                x = encoding.embed(x, ids, positions)
            # -
            # + dropout
            if number == 0:
                x = F.dropout(x, self.config["dropout"], self.training)
            # -
            # + factors
            rest = (layer, encodings, factors)
            # -
            # + !factors
            rest = (layer, encodings)
            # -
            # + memory
            before = kept[number] if kept[number] is not None else x[:, :0]
            seen = torch.cat([before, x], 1)
            kept[number] = seen[:, -self.config["memory"] :].detach()
            back = torch.arange(-before.shape[1], 0, device=x.device) + positions[0]
            all_positions = torch.cat([back, positions])
            inner = block.attention(block.attention_norm(seen), all_positions, *rest)
            inner = inner[:, before.shape[1] :]
            # -
            # + !memory
            inner = block.attention_norm(x)
            # + canon_attention
            inner = block.attention_canon(inner)
            # -
            inner = block.attention(inner, positions, *rest)
            # -
            # + dropout
            inner = F.dropout(inner, self.config["dropout"], self.training)
            # -
            x = x + inner
            inner = block.feed_forward_norm(x)
            # + canon_feed_forward
            inner = block.feed_forward_canon(inner)
            # -
            inner = block.feed_forward(inner)
            # + dropout
            inner = F.dropout(inner, self.config["dropout"], self.training)
            # -
            x = x + inner
        return x
