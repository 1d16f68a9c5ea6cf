# DQN on CartPole (the physics are copied here because gym is not installed)
import math, random
import numpy as np
from collections import deque
from tensorflow.keras.models import Sequential
from tensorflow.keras.layers import Dense
from tensorflow.keras.optimizers import Adam
from tensorflow.keras.utils import set_random_seed

EPISODES = 12


class CartPole:
    def reset(self):
        self.s = np.random.uniform(-0.05, 0.05, 4)
        return self.s.copy()

    def step(self, action):
        x, x_dot, th, th_dot = self.s
        force = 10.0 if action == 1 else -10.0
        temp = (force + 0.05 * th_dot ** 2 * math.sin(th)) / 1.1
        thacc = (9.8 * math.sin(th) - math.cos(th) * temp) / (0.5 * (4.0 / 3.0 - 0.1 * math.cos(th) ** 2 / 1.1))
        xacc = temp - 0.05 * thacc * math.cos(th) / 1.1
        self.s = np.array([x + 0.02 * x_dot, x_dot + 0.02 * xacc, th + 0.02 * th_dot, th_dot + 0.02 * thacc])
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 12 * math.pi / 180
        return self.s.copy(), 1.0, done


class DQNAgent:
    def __init__(self, state_size, action_size):
        self.state_size, self.action_size = state_size, action_size
        self.memory = deque(maxlen=2000)
        self.gamma = 0.95    # discount rate
        self.epsilon = 1.0  # exploration rate
        self.epsilon_min = 0.01
        self.epsilon_decay = 0.96
        self.model, self.target_model = self._build_model(), self._build_model()
        self.update_target_model()

    def _build_model(self):
        model = Sequential()
        model.add(Dense(24, input_dim=self.state_size, activation='relu'))
        model.add(Dense(24, activation='relu'))
        model.add(Dense(self.action_size, activation='linear'))
        model.compile(loss='mse', optimizer=Adam(learning_rate=0.001))
        return model

    def update_target_model(self):
        self.target_model.set_weights(self.model.get_weights())

    def act(self, state):
        if np.random.rand() <= self.epsilon:
            return random.randrange(self.action_size)
        return int(np.argmax(self.model.predict(state, verbose=0)[0]))  # returns action

    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        states = np.concatenate([m[0] for m in minibatch])
        target = self.model.predict_on_batch(states)
        t = self.target_model.predict_on_batch(np.concatenate([m[3] for m in minibatch]))
        for i, (_, action, reward, _, done) in enumerate(minibatch):
            target[i][action] = reward if done else reward + self.gamma * np.amax(t[i])
        loss = self.model.train_on_batch(states, target)
        if self.epsilon > self.epsilon_min:
            self.epsilon *= self.epsilon_decay
        return loss


if __name__ == "__main__":
    set_random_seed(50)
    env, agent = CartPole(), DQNAgent(4, 2)
    losses, scores = [], []
    for e in range(EPISODES):
        state = np.reshape(env.reset(), [1, 4])
        for time in range(60):
            action = agent.act(state)
            next_state, reward, done = env.step(action)
            next_state = np.reshape(next_state, [1, 4])
            agent.memory.append((state, action, -10 if done else reward, next_state, done))
            state = next_state
            if len(agent.memory) > 32 and time % 3 == 0:
                losses.append(float(agent.replay(32)))
            if done:
                break
        agent.update_target_model()
        scores.append(time)
        print("episode: {}/{}, score: {}, e: {:.2}".format(e, EPISODES, time, agent.epsilon))
    q = agent.model.predict(np.zeros((1, 4)), verbose=0)[0]
    print("RESULT steps=%d updates=%d last_loss=%.5f q0=%.5f q1=%.5f epsilon=%.5f" % (
        sum(scores), len(losses), np.mean(losses[-5:]), q[0], q[1], agent.epsilon))
