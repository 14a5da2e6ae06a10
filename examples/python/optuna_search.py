"""Searches a learning rate and a memory for a tiny run with Optuna: python optuna_search.py FOLDER."""

import argparse
from pathlib import Path

import optuna

import engram


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the runs, one for each trial")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=6000, help="environment steps of a trial")
    options = parser.parse_args()

    def objective(trial: optuna.Trial) -> float:
        config = {
            "task": {"name": "tmaze", "corridor_length": 5},
            "memory": {"name": trial.suggest_categorical("memory", ["gru", "hqlt", "lru"]), "width": 16, "layers": 1},
            "network": {"hidden_width": 32},
            "learner": {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)},
            "replay": {"batch_episodes": 16},
            "run": {"steps": options.steps, "num_envs": 4},
            "evaluation": {"every_steps": max(1, options.steps // 4), "episodes": 50, "final_episodes": 0},
        }
        evaluations = 0

        def prune(event: engram.TrainEvent) -> None:
            nonlocal evaluations
            if event.kind != "evaluation":
                return
            evaluations += 1
            trial.report(event.last_evaluation.success, evaluations)
            if trial.should_prune():
                raise optuna.TrialPruned

        result = engram.train(config, run=options.folder / str(trial.number), device="cpu", callback=prune)
        return result.best_evaluation.success

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=options.trials)
    print(f"best success {study.best_value:.0%} with {study.best_params}")


if __name__ == "__main__":
    main()
