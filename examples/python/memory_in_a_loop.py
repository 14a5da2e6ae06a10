"""Any of engram's memories in a training loop of plain PyTorch: the first token of a sequence is asked for at its end.

python3 examples/python/memory_in_a_loop.py hqlt
"""

import argparse

import torch
from torch import nn

import engram

TOKENS, STEPS, BATCH = 4, 16, 64


class Recall(nn.Module):
    """Tokens [B, T] -> logits [B, TOKENS] of the first one."""

    def __init__(self, memory: engram.Backbone) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, memory.width)
        self.memory = memory
        self.output = nn.Linear(memory.width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        features, _ = self.memory(self.embedding(tokens), return_state=False)
        return self.output(features[:, -1])


def accuracy_after(name: str, updates: int, device: str) -> float:
    """Trains a network with the memory of that name; returns how often it is right on sequences that it never saw."""
    options = {option.name for option in engram.backbone_options(name)}
    wanted = {"width": 32, "layers": 1, "dropout": 0.0}
    memory = engram.Backbone(name, max_steps=STEPS, **{key: wanted[key] for key in wanted if key in options})
    model = Recall(memory).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for update in range(1, updates + 1):
        tokens = torch.randint(TOKENS, (BATCH, STEPS), device=device)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):  # the fused kernels
            loss = nn.functional.cross_entropy(model(tokens), tokens[:, 0])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if update % 50 == 0:
            print(f"{name}: update {update}, loss {loss.item():.3f}")
    model.eval()
    tokens = torch.randint(TOKENS, (512, STEPS), device=device)
    with torch.no_grad():
        return (model(tokens).argmax(-1) == tokens[:, 0]).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", choices=engram.backbone_names(), metavar="MEMORY", nargs="?", default="hqlt")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    accuracy = accuracy_after(arguments.memory, arguments.updates, device)
    print(f"{arguments.memory} is right in {accuracy:.1%} of unseen sequences; a guess is in {1 / TOKENS:.1%}")


if __name__ == "__main__":
    main()
