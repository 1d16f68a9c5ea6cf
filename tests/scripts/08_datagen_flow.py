# cats and dogs from folders, the old way
import os, sys
import numpy as np
from tensorflow.keras.preprocessing.image import ImageDataGenerator, load_img, img_to_array
from tensorflow.keras.models import Sequential
from tensorflow.keras.layers import Conv2D, MaxPooling2D
from tensorflow.keras.layers import Activation, Dropout, Flatten, Dense
from tensorflow.keras import backend as K
from tensorflow.keras.utils import set_random_seed

set_random_seed(10)

# dimensions of our images.
img_width, img_height = 75, 75
data_dir = os.path.join(os.environ.get('SCRIPTS_DATA', 'data'), 'cats_dogs')
epochs = 2
batch_size = 16

if K.image_data_format() == 'channels_first':
    input_shape = (3, img_width, img_height)
else:
    input_shape = (img_width, img_height, 3)

model = Sequential()
model.add(Conv2D(32, (3, 3), input_shape=input_shape))
model.add(Activation('relu'))
model.add(MaxPooling2D(pool_size=(2, 2)))

model.add(Conv2D(32, (3, 3)))
model.add(Activation('relu'))
model.add(MaxPooling2D(pool_size=(2, 2)))

model.add(Conv2D(64, (3, 3)))
model.add(Activation('relu'))
model.add(MaxPooling2D(pool_size=(2, 2)))

model.add(Flatten())
model.add(Dense(64))
model.add(Activation('relu'))
model.add(Dropout(0.5))
model.add(Dense(1))
model.add(Activation('sigmoid'))

model.compile(loss='binary_crossentropy', optimizer='rmsprop', metrics=['accuracy'])

# this is the augmentation configuration we will use for training
datagen = ImageDataGenerator(rescale=1. / 255, horizontal_flip=True, validation_split=0.15)

train_generator = datagen.flow_from_directory(
    data_dir, target_size=(img_width, img_height), batch_size=batch_size,
    class_mode='binary', subset='training', seed=10)
validation_generator = datagen.flow_from_directory(
    data_dir, target_size=(img_width, img_height), batch_size=batch_size,
    class_mode='binary', subset='validation', shuffle=False)

nb_train_samples = 640
nb_validation_samples = 160
history = model.fit(
    train_generator,
    steps_per_epoch=nb_train_samples // batch_size,
    epochs=epochs,
    validation_data=validation_generator,
    validation_steps=nb_validation_samples // batch_size)

model.save_weights('first_try.weights.h5')

img = load_img(validation_generator.filepaths[0], target_size=(img_width, img_height))
x = img_to_array(img)[None] / 255.
p = model.predict(x)[0, 0]
print(train_generator.class_indices)
print('RESULT loss=%.5f val_loss=%.5f val_acc=%.5f p0=%.5f' % (
    history.history['loss'][-1], history.history['val_loss'][-1], history.history['val_accuracy'][-1], p))
