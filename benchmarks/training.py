"""Prompts a second of one training step, against a straightforward implementation of the same mathematics.

    python -m benchmarks.training

The reference is written from the description in appendix D: covariances by SVD, nanoGPT's attention with biases, made
linear and full (n x n), float32, AdamW. The two take turns in one process, one thread, sampling and optimiser included;
the table has medians and their ratio, and how long the matrix products alone would take at the speed of a large one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from tfnewton.learning.devices import bf16_pays
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

LAYERS, D, N, WIDTH, HEADS = 4, 10, 50, 64, 4
Step = Callable[[], object]


class ReferenceBlock(nn.Module):
    """nanoGPT's attention without softmax and mask, divided by the number of tokens; LayerNorm where asked for."""

    def __init__(self, layer_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if layer_norm else nn.Identity()
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        B, T, C = h.shape
        parts = self.attend(self.norm(h)).split(C, dim=2)
        q, k, v = (part.view(B, T, HEADS, C // HEADS).transpose(1, 2) for part in parts)  # (B, heads, T, C / heads)
        y = (q @ k.transpose(-2, -1) / T) @ v  # through the (B, heads, T, T) scores
        result: Tensor = h + self.project(y.transpose(1, 2).contiguous().view(B, T, C))
        return result


class Reference(nn.Module):
    """Embedding, blocks, read-out at every token."""

    def __init__(self, layer_norm: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(D + 1, WIDTH), nn.Linear(WIDTH, 1)
        self.blocks = nn.Sequential(*(ReferenceBlock(layer_norm) for _ in range(LAYERS)))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, prompts: LinearPrompts) -> Tensor:
        x = torch.cat([prompts.x, prompts.x_query.unsqueeze(1)], dim=1)
        y = nn.functional.pad(prompts.y, (0, 1))
        h = self.embed(0.1 * torch.cat([x, y.unsqueeze(-1)], dim=2))
        result: Tensor = self.head(self.blocks(h))[:, -1, 0] / 0.1
        return result


def reference_sample(source: Generator, count: int) -> LinearPrompts:
    """One covariance a prompt from a singular value decomposition, and points from its Cholesky factor."""
    U, S, _ = torch.linalg.svd(torch.randn(count, D, D, generator=source))
    top = 1.0 + 99.0 * torch.rand(count, 1, generator=source)
    others = top / 10.0 + (top - top / 10.0) * torch.rand(count, D - 2, generator=source)
    S = torch.cat([top, others.sort(dim=1, descending=True).values, top / 10.0], dim=1)
    factor = torch.linalg.cholesky(U @ torch.diag_embed(S) @ U.mT)
    x = torch.randn(count, N + 1, D, generator=source) @ factor.mT
    w = torch.randn(count, D, generator=source)
    y = (x @ w.unsqueeze(-1)).squeeze(-1)
    return LinearPrompts(x[:, :-1], y[:, :-1], x[:, -1], y[:, -1], w)


def step(
    model: nn.Module, sample: Callable[[Generator, int], LinearPrompts], batch: int, bf16: bool, fused: bool
) -> Step:
    """Return a function that takes one training step of ``model``."""
    source = generator(0, "benchmark")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=fused)

    def take() -> None:
        prompts = sample(source, batch)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            prediction = model(prompts)
        loss = (prediction.float() - prompts.target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return take


def alternate(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Return the median seconds of each step; they take turns, so that a busy machine is busy for all."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for take in steps.values():
        take()
    for _ in range(rounds):
        for name, take in steps.items():
            start = time.process_time()
            take()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def gemm_seconds(batch: int, layer_norm: bool, dtype: torch.dtype) -> float:
    """Return how long the products of one step would take at the speed of one large product of this dtype.

    A layer multiplies tokens (Gram form: d + 1 of them) by 4 width^2 weights and has about 3 token-by-token products a
    head; the backward pass does twice as much, and of the last layer only the keys and values of one query are needed.
    """
    tokens = batch * (N + 1 if layer_norm else D + 1)
    a, b = torch.randn(4096, 512, dtype=dtype), torch.randn(512, 512, dtype=dtype)
    speed = 2 * 4096 * 512 * 512 / alternate({"gemm": lambda: torch.mm(a, b)}, 20)["gemm"]
    inner = LAYERS - 1 if layer_norm else LAYERS - 2  # the first layer of the Gram form is the same for all prompts
    attention = 2 * WIDTH // HEADS if layer_norm else 3 * (D + 1)
    return 3 * inner * 2 * tokens * WIDTH * (4 * WIDTH + attention) / speed


def main(batch: int = 256, rounds: int = 15) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    task = LinearRegression(d=D, n=N)
    print(
        f"L = {LAYERS}, d = {D}, n = {N}, width {WIDTH}, {HEADS} heads, batch {batch}, one thread, medians of {rounds}"
    )
    print(f"{'path':28}{'ms a step':>12}{'reference':>12}{'ratio':>8}{'products alone':>16}")
    chosen = "bfloat16" if bf16_pays("cpu") else "float32"
    print(f"training with LayerNorm takes {chosen} on this machine")
    paths = {"Gram form, no LayerNorm": (None, False), "LayerNorm, float32": (1e-5, False)}
    paths |= {"LayerNorm, bfloat16": (1e-5, True)}
    for name, (epsilon, bf16) in paths.items():
        options = LinearAttentionOptions(layers=LAYERS, layer_norm=epsilon, init=0.02, init_out=0.02)
        model = LinearAttention(options, D, generator(0, "benchmark"))
        layer_norm = epsilon is not None
        seconds = alternate(
            {
                "ours": step(model, task.sample, batch, bf16=bf16, fused=True),
                "reference": step(Reference(layer_norm), reference_sample, batch, bf16=False, fused=False),
            },
            rounds,
        )
        ours, reference = (1e3 * seconds[key] for key in ("ours", "reference"))
        limit = 1e3 * gemm_seconds(batch, layer_norm, torch.bfloat16 if bf16 else torch.float32)
        print(f"{name:28}{ours:12.1f}{reference:12.1f}{reference / ours:8.1f}{limit:16.1f}")


if __name__ == "__main__":
    main()
