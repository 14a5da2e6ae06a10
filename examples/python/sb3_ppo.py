"""Stable-Baselines3's PPO on a task that needs no memory: the T-maze, with its observation showing the side throughout.

    python3 sb3_ppo.py --steps 60000
"""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from engram.sb3 import VecEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps to train")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # fastest for networks this small

    task = {"corridor_length": 5, "full_state": True}
    envs = VecMonitor(VecEnv("tmaze", 32, **task))
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=64,
        batch_size=512,
        learning_rate=1e-3,
        ent_coef=0.01,
        seed=arguments.seed,
        device="cpu",
    )
    model.learn(arguments.steps)

    unseen = VecMonitor(VecEnv("tmaze", 32, **task))
    unseen.seed(1_000_000)
    mean, deviation = evaluate_policy(model, unseen, n_eval_episodes=200)
    print(f"return of 200 unseen episodes: {mean:.2f} +- {deviation:.2f}")


if __name__ == "__main__":
    main()
