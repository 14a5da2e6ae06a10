"""Logs a run with Weights & Biases: WANDB_MODE=offline python weights_and_biases.py FOLDER."""

import argparse
import sys
from pathlib import Path

import engram


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the run and of what wandb writes")
    parser.add_argument("--steps", type=int, default=6000, help="environment steps")
    options = parser.parse_args()
    try:
        import wandb
    except ImportError:
        print("wandb is not installed: pip install wandb")
        sys.exit(0)

    config = {
        "task": {"name": "tmaze", "corridor_length": 5},
        "memory": {"name": "gru", "width": 16, "layers": 1},
        "network": {"hidden_width": 32},
        "replay": {"batch_episodes": 16},
        "run": {"steps": options.steps, "num_envs": 4},
        "evaluation": {"every_steps": 1000, "episodes": 50},
    }
    options.folder.mkdir(parents=True, exist_ok=True)
    with wandb.init(project="engram", dir=options.folder, config=config) as logged:

        def log(event: engram.TrainEvent) -> None:
            if event.kind == "measurement":
                scalars = {"return": event.recent_return, "success": event.recent_success, **event.losses}
                logged.log({f"train/{name}": value for name, value in scalars.items()}, step=event.steps)
            elif event.kind == "evaluation":
                logged.log({"evaluation/success": event.last_evaluation.success}, step=event.steps)

        result = engram.train(config, run=options.folder / "run", device="cpu", callback=log)
        logged.summary["final/success"] = result.final_evaluation.success


if __name__ == "__main__":
    main()
