"""Recurrent PPO in one file, in the manner of CleanRL: a GRU on any task whose observation is a box.

    python3 cleanrl_ppo.py --steps 100000          # a T-maze: the side is shown at the start, asked for at the end
    python3 cleanrl_ppo.py --task repeat_first --steps 1000000
"""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import engram


class Agent(nn.Module):
    """Policy and value over a GRU. Shapes: T steps, N environments, W width."""

    def __init__(self, observation_size: int, num_actions: int, width: int):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(observation_size, width), nn.Tanh())
        self.memory = nn.GRUCell(width, width)
        self.policy = nn.Linear(width, num_actions)
        self.value = nn.Linear(width, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, observation_TNX, start_TN, state_NW):
        """Forgets where an episode starts; returns policy, value [T, N] and the last state."""
        outputs = []
        for encoded_NW, start_N in zip(self.encoder(observation_TNX), start_TN):
            state_NW = self.memory(encoded_NW, state_NW * (1 - start_N[:, None]))
            outputs.append(state_NW)
        output_TNW = torch.stack(outputs)
        return Categorical(logits=self.policy(output_TNW)), self.value(output_TNW).squeeze(-1), state_NW


def flat(observation: np.ndarray) -> torch.Tensor:
    """A copy, float32 [N, X]; bytes become 0 to 1."""
    scale = 255 if observation.dtype == np.uint8 else 1
    return torch.as_tensor(observation.reshape(len(observation), -1) / scale, dtype=torch.float32)


def advantages_of(reward_TN, value_TN, end_TN, last_value_N, discount, decay):
    """Generalised advantage estimates; nothing flows over an episode's end."""
    advantage_TN, advantage_N, next_value_N = torch.zeros_like(reward_TN), torch.zeros_like(last_value_N), last_value_N
    for t in reversed(range(len(reward_TN))):
        goes_on_N = 1 - end_TN[t]
        delta_N = reward_TN[t] + discount * next_value_N * goes_on_N - value_TN[t]
        advantage_TN[t] = advantage_N = delta_N + discount * decay * goes_on_N * advantage_N
        next_value_N = value_TN[t]
    return advantage_TN


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="tmaze", help="a task or a preset")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps to train")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--rollout", type=int, default=64, help="steps of each environment between updates")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=4, help="each of some of the environments")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--decay", type=float, default=0.95, help="lambda of the advantages")
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--entropy", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # fastest for networks this small
    options = {"corridor_length": 5} if arguments.task == "tmaze" else {}
    envs = engram.make_vec(arguments.task, arguments.num_envs, **options)
    T, N, W = arguments.rollout, arguments.num_envs, arguments.width
    X = int(np.prod(envs.single_observation_space.shape))
    agent = Agent(X, envs.single_action_space.n, W)
    optimizer = torch.optim.Adam(agent.parameters(), lr=arguments.learning_rate, eps=1e-5)

    observation_TNX = torch.zeros(T, N, X)
    action_TN = torch.zeros(T, N, dtype=torch.int64)
    start_TN, log_prob_TN, value_TN, reward_TN, end_TN = torch.zeros(5, T, N)
    observation, _ = envs.reset(seed=arguments.seed)
    start_N, state_NW = torch.ones(N), torch.zeros(N, W)
    began = time.perf_counter()
    for update in range(1, max(1, arguments.steps // (T * N)) + 1):
        first_state_NW, solved = state_NW, []
        for t in range(T):
            observation_TNX[t], start_TN[t] = flat(observation), start_N
            with torch.no_grad():
                policy, value, state_NW = agent(observation_TNX[t : t + 1], start_N[None], state_NW)
            action_TN[t] = policy.sample()[0]
            log_prob_TN[t], value_TN[t] = policy.log_prob(action_TN[t : t + 1])[0], value[0]
            observation, reward, terminated, truncated, info = envs.step(action_TN[t].numpy())
            end = terminated | truncated
            reward_TN[t], end_TN[t] = torch.as_tensor(reward), torch.as_tensor(end)
            start_N = end_TN[t].clone()
            if "final_info" in info:
                solved.append(info["final_info"]["success"][end])

        with torch.no_grad():
            last_value_N = agent(flat(observation)[None], start_N[None], state_NW)[1][0]
        advantage_TN = advantages_of(
            reward_TN, value_TN, end_TN, last_value_N, arguments.discount, arguments.decay
        )
        return_TN = advantage_TN + value_TN
        for _ in range(arguments.epochs):
            for rows in torch.randperm(N).chunk(arguments.minibatches):
                policy, value, _ = agent(observation_TNX[:, rows], start_TN[:, rows], first_state_NW[rows])
                ratio = (policy.log_prob(action_TN[:, rows]) - log_prob_TN[:, rows]).exp()
                advantage = advantage_TN[:, rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - arguments.clip, 1 + arguments.clip)
                loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                loss = loss + 0.5 * (value - return_TN[:, rows]).square().mean()
                loss = loss - arguments.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

        steps = update * T * N
        success = np.concatenate(solved).mean() if solved else float("nan")
        rate = steps / (time.perf_counter() - began)
        print(f"steps {steps:8d}  reward a step {reward_TN.mean():7.4f}  success {success:.2f}  steps/s {rate:.0f}")


if __name__ == "__main__":
    main()
