"""A whole update by PPO, of which ppo_update wrote all that it begins from and what it came to, against plain PyTorch in
double precision, after the papers: advantages (Schulman et al. 2016, equation 16), losses (Schulman et al. 2017,
equations 7 and 9), gradients by torch.autograd, Adam of torch.optim.  usage: ppo_update.py PROGRAM

Exit status 77 (skipped) where Python cannot import PyTorch, as where LibTorch was installed for a CPU alone."""

import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except Exception as error:  # of many kinds where libraries are missing
    print(f"skipped: {error}")
    sys.exit(77)
from safetensors import safe_open

TOLERANCE = {"double": 1e-12, "single": 2e-6}  # of the greatest number; both take the same inputs, in single precision


def written(program):
    """The tensors, in double precision, and the settings."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "update.safetensors"
        subprocess.run([program, str(path)], check=True)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            settings = {name: float(text) for name, text in file.metadata().items()
                        if name not in ("engram", "xxh3_128")}
    return {name: x.double() if x.is_floating_point() else x for name, x in tensors.items()}, settings


def difference(actual, expected):
    return ((actual - expected).abs().max() / expected.abs().max().clamp(min=1e-12)).item()


def estimated_advantages(x, setting):
    """[B, T], 0 in the padding."""
    advantage = torch.zeros_like(x["reward"])
    for b, steps in enumerate(x["steps"].tolist()):
        for t in range(steps):
            for k in range(t, steps):
                bootstrap = 0 if x["terminated"][b, k] else setting["gamma"] * x["value"][b, k + 1]
                error = x["reward"][b, k] + bootstrap - x["value"][b, k]
                advantage[b, t] += (setting["gamma"] * setting["lambda"]) ** (k - t) * error
    return advantage


def losses(logits, value, played, scale, setting):
    """total, actor, critic, entropy, kl, clipped, value; all arguments are of the valid steps alone, [n, ...]."""
    policy = torch.distributions.Categorical(logits=logits)
    log_ratio = policy.log_prob(played["action"]) - played["log_prob"]
    ratio = log_ratio.exp()
    advantage = (played["advantage"] - scale["mean"]) / scale["deviation"]
    clip = setting["clip"]
    actor = -torch.min(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage).mean()
    returns = played["advantage"] + played["value"]
    step = (value - played["value"]).clip(-setting["value_clip"], setting["value_clip"])
    errors = torch.max((value - returns) ** 2, (played["value"] + step - returns) ** 2)
    critic = errors.clip(max=setting["value_error_bound"]).mean()
    entropy, kl = policy.entropy().mean(), (ratio - 1 - log_ratio).mean()
    total = (actor + setting["value_weight"] * critic - setting["entropy_weight"] * entropy
             + setting["kl_weight"] * kl)
    clipped = ((ratio - 1).abs() > clip).double().mean()
    return torch.stack([total, actor, critic, entropy, kl, clipped, value.mean()])


def update(x, setting):
    """What the weights come to, losses and gradients of each epoch."""
    steps = x["reward"].shape[1]
    valid = torch.arange(steps) < x["steps"].unsqueeze(1)
    played = {name: x[name][:, :steps][valid] for name in ("action", "log_prob", "value", "advantage")}
    scale = {"mean": played["advantage"].mean(), "deviation": played["advantage"].std(correction=0)}
    names = ("policy_weight", "policy_bias", "value_weight", "value_bias")
    weights = {name: x[f"begin.{name}"].clone().requires_grad_() for name in names}
    adam = torch.optim.Adam(weights.values(), lr=setting["learning_rate"])
    features = x["features"][:, :steps][valid]
    result = {"losses": []}
    for epoch in range(int(setting["epochs"])):
        logits = torch.nn.functional.linear(features, weights["policy_weight"], weights["policy_bias"])
        value = torch.nn.functional.linear(features, weights["value_weight"], weights["value_bias"]).squeeze(-1)
        measured = losses(logits, value, played, scale, setting)
        adam.zero_grad()
        measured[0].backward()
        result["losses"].append(measured.detach())
        result[f"gradient{epoch}"] = weights["policy_weight"].grad.clone()
        result[f"value_gradient{epoch}"] = weights["value_weight"].grad.clone()
        adam.step()
    result["losses"] = torch.stack(result["losses"])
    return result | {name: weight.detach() for name, weight in weights.items()}


tensors, settings = written(sys.argv[1])
advantage_error = difference(tensors["advantage"], estimated_advantages(tensors, settings))
assert advantage_error < 1e-6, f"advantages: {advantage_error}"
expected = update(tensors, settings)
shares = expected["losses"][:, 5]
assert 0.1 < shares.min() and shares.max() < 0.9, f"the surrogate is to be clipped at times: {shares}"
for precision, tolerance in TOLERANCE.items():
    for name, wanted in expected.items():
        error = difference(tensors[f"{precision}.{name}"], wanted)
        print(f"{precision}.{name}: {error:.1e}")
        assert error < tolerance, f"{precision}.{name}: {error}"
