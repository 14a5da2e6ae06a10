"""RecurrentPPO of sb3-contrib, an LSTM, on the T-maze, where the side is shown once, at the start.

    python3 sb3_recurrent_ppo.py --steps 40000
"""

import argparse

from sb3_contrib import RecurrentPPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from engram.sb3 import VecEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40_000, help="environment steps to train")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    envs = VecMonitor(VecEnv("tmaze", 32, corridor_length=5))
    model = RecurrentPPO(
        "MlpLstmPolicy",
        envs,
        n_steps=64,
        batch_size=512,
        learning_rate=1e-3,
        ent_coef=0.01,
        policy_kwargs={"lstm_hidden_size": 32, "net_arch": [32]},
        seed=arguments.seed,
        device="cpu",
    )
    model.learn(arguments.steps)

    unseen = VecMonitor(VecEnv("tmaze", 32, corridor_length=5))
    unseen.seed(1_000_000)
    mean, deviation = evaluate_policy(model, unseen, n_eval_episodes=200)
    print(f"return of 200 unseen episodes: {mean:.2f} +- {deviation:.2f}")


if __name__ == "__main__":
    main()
