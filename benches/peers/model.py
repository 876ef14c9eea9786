"""The same decoder as ours in PyTorch: pre-norm, RMSNorm, GELU, no biases, packed q, k and v, untied head.

Encodings: `rope` (half-split), `alibi`, `t5` (buckets of the decoder, shared by the layers) and `none`.
Weights come from the safetensors file that `longwave bench train --export` writes, under its names.
"""

import json
import math
import struct

import torch
import torch.nn.functional as F


def use(device, threads):
    """Puts every tensor made from here on there: `cpu`, or `gpu` for PyTorch's own backend (CUDA or ROCm)."""
    torch.set_num_threads(threads)
    if device == "gpu":
        if not torch.cuda.is_available():
            raise SystemExit("PyTorch finds no GPU here: run with `--device cpu`")
        torch.set_default_device("cuda")


def here(tensor):
    """A tensor on the device in use."""
    return tensor.to(torch.get_default_device())


def finish():
    """Waits until the device has done all it was given; a CPU has."""
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()


def load_weights(path):
    """Tensors by name, without the `model.` that a checkpoint puts before them."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        body = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        flat = torch.frombuffer(body, dtype=torch.float32, count=(end - start) // 4, offset=start)
        tensors[name.removeprefix("model.")] = here(flat.reshape(entry["shape"]).clone())
    return tensors


def t5_bucket(distance, buckets, max_distance):
    """Raffel et al. 2020: half of the buckets for exact distances, the rest logarithmic."""
    exact = buckets // 2
    if distance < exact:
        return distance
    far = exact + int(math.log(distance / exact) / math.log(max_distance / exact) * (buckets - exact))
    return min(far, buckets - 1)


class Gpt(torch.nn.Module):
    def __init__(self, run, weights, attention):
        """`attention` is called as attention(q, k, v, layer) on [batch, heads, length, head_dim]."""
        super().__init__()
        self.run, self.attention = run, attention
        self.weights = torch.nn.ParameterDict(
            {name.replace(".", "/"): torch.nn.Parameter(value) for name, value in weights.items()}
        )
        self.cos = self.sin = None

    def weight(self, name):
        return self.weights[name.replace(".", "/")]

    def prepare(self, length):
        """Tables of a length, made once, as a training program would."""
        half = self.run["head_dim"] // 2
        base = self.run["position"].get("base", 10000.0)
        inv_freq = base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * inv_freq
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def rotate(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * self.cos - b * self.sin, a * self.sin + b * self.cos), dim=-1)

    def hidden(self, tokens):
        run = self.run
        batch, length = tokens.shape
        x = F.embedding(tokens, self.weight("embedding"))
        for layer in range(run["layers"]):
            name = f"blocks.{layer}"
            h = F.rms_norm(x, (run["width"],), self.weight(f"{name}.attention_norm.gain"), 1e-5)
            qkv = h @ self.weight(f"{name}.attention.qkv")
            q, k, v = qkv.reshape(batch, length, 3 * run["heads"], run["head_dim"]).transpose(1, 2).chunk(3, dim=1)
            if run["encoding"] == "rope":
                q, k = self.rotate(q), self.rotate(k)
            out = self.attention(q, k, v, layer)
            out = out.transpose(1, 2).reshape(batch, length, run["heads"] * run["head_dim"])
            x = x + out @ self.weight(f"{name}.attention.output")
            h = F.rms_norm(x, (run["width"],), self.weight(f"{name}.feed_forward_norm.gain"), 1e-5)
            x = x + F.gelu(h @ self.weight(f"{name}.feed_forward.input")) @ self.weight(f"{name}.feed_forward.output")
        return F.rms_norm(x, (run["width"],), self.weight("norm.gain"), 1e-5)

    def forward(self, tokens, targets):
        """Mean loss of the last targets.shape[1] tokens."""
        hidden = self.hidden(tokens)[:, -targets.shape[1] :]
        logits = hidden @ self.weight("head")
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def alibi_slopes(heads):
    """Press et al. 2022, section 3: a geometric sequence, with those of twice the power of two between."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]
    return torch.tensor(slopes)


def causal(q, k, v, layer):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def biased(bias):
    """scaled_dot_product_attention with a `[1, heads, length, length]` bias, minus infinity where hidden."""
    return lambda q, k, v, layer: F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def dense_bias(run, length, table=None):
    """The bias of `alibi` or `t5` as a tensor `[1, heads, length, length]`."""
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    if run["encoding"] == "alibi":
        bias = -alibi_slopes(run["heads"])[:, None, None] * distance.clamp(min=0)
    else:
        buckets = torch.tensor([t5_bucket(n, table.shape[-1], 128) for n in range(length)])
        bias = table.detach()[:, buckets][:, distance.clamp(min=0)]
    return bias.masked_fill(distance < 0, float("-inf"))[None].contiguous()


def in_blocks(run, length, table=None, rows=512):
    """The same attention a block of queries at a time: linear memory, each block with a bias of its own."""
    if run["encoding"] == "alibi":
        slopes = alibi_slopes(run["heads"])[:, None, None]
    else:
        buckets = torch.tensor([t5_bucket(n, table.shape[-1], 128) for n in range(length)])
        by_distance = table.detach()[:, buckets]

    def attention(q, k, v, layer):
        parts = []
        for first in range(0, q.shape[2], rows):
            end = min(first + rows, q.shape[2])
            distance = torch.arange(first, end)[:, None] - torch.arange(end)[None, :]
            near = distance.clamp(min=0)
            bias = -slopes * near if run["encoding"] == "alibi" else by_distance[:, near]
            bias = bias.masked_fill(distance < 0, float("-inf"))[None]
            block = F.scaled_dot_product_attention(q[:, :, first:end], k[:, :, :end], v[:, :, :end], attn_mask=bias)
            parts.append(block)
        return torch.cat(parts, dim=2)

    return attention


def flex(run):
    """FlexAttention with the bias computed from indices (`alibi` only), compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = alibi_slopes(run["heads"])
    compiled = torch.compile(flex_attention)

    def score(score, b, h, q, k):
        return score - slopes[h] * (q - k)

    masks = {}

    def attention(q, k, v, layer):
        length = q.shape[2]
        if length not in masks:
            masks[length] = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device=q.device.type)
        return compiled(q, k, v, score_mod=score, block_mask=masks[length])

    return attention
