# LSTM for international airline passengers problem with regression framing
import os
import numpy as np
import tensorflow as tf
from tensorflow.keras.models import Sequential
from tensorflow.keras.layers import Dense
from tensorflow.keras.layers import LSTM

DATA = os.environ.get("SCRIPTS_DATA", "data")

# convert an array of values into a dataset matrix
def create_dataset(dataset, look_back=1):
    dataX, dataY = [], []
    for i in range(len(dataset)-look_back-1):
        a = dataset[i:(i+look_back), 0]
        dataX.append(a)
        dataY.append(dataset[i + look_back, 0])
    return np.array(dataX), np.array(dataY)

# fix random seed for reproducibility
tf.keras.utils.set_random_seed(7)

# load the dataset
dataset = np.genfromtxt(os.path.join(DATA, "airline-passengers.csv"), delimiter=",", skip_header=1, usecols=1)
dataset = dataset.reshape(-1, 1).astype('float32')

# normalize the dataset
lo, hi = dataset.min(), dataset.max()
dataset = (dataset - lo) / (hi - lo)

# split into train and test sets
train_size = int(len(dataset) * 0.67)
test_size = len(dataset) - train_size
train, test = dataset[0:train_size,:], dataset[train_size:len(dataset),:]

# reshape into X=t and Y=t+1
look_back = 3
trainX, trainY = create_dataset(train, look_back)
testX, testY = create_dataset(test, look_back)
# reshape input to be [samples, time steps, features]
trainX = np.reshape(trainX, (trainX.shape[0], trainX.shape[1], 1))
testX = np.reshape(testX, (testX.shape[0], testX.shape[1], 1))

# create and fit the LSTM network
batch_size = 1
model = Sequential()
model.add(LSTM(8, return_sequences=True, input_shape=(look_back, 1)))
model.add(LSTM(4))
model.add(Dense(1))
model.compile(loss='mean_squared_error', optimizer='adam')
hist = model.fit(trainX, trainY, epochs=12, batch_size=batch_size, verbose=2, shuffle=False)

# make predictions
trainPredict = model.predict(trainX)
testPredict = model.predict(testX)

# invert predictions
def invert(v):
    return v * (hi - lo) + lo

trainScore = np.sqrt(np.mean((invert(trainY) - invert(trainPredict[:,0])) ** 2))
testScore = np.sqrt(np.mean((invert(testY) - invert(testPredict[:,0])) ** 2))
print('Train Score: %.2f RMSE' % trainScore)
print('Test Score: %.2f RMSE' % testScore)
print('RESULT loss=%.5f train_rmse=%.5f test_rmse=%.5f' % (hist.history['loss'][-1], trainScore, testScore))
