"""Rates for schedule_test.c:

    build/paddle-3.3.1/bin/python runtime/train/optim/testdata/schedule.py >runtime/train/optim/testdata/schedule.txt

A line is text, lr, t, rate.  Those with a class of paddle.optimizer.lr are of real Paddle 3.3.1; the others by the formulas of
the documents of Paddle 1 (decay_steps, staircase) and of PaddlePaddle 0.x (learning_rate_schedule), in Python.
"""
from math import exp, floor

from paddle.optimizer import lr

STEPS = [0, 1, 2, 5, 9, 10, 11, 19, 20, 29, 37, 60]


def of_paddle(text, rate, schedule):
    for t in range(max(STEPS) + 1):
        if t in STEPS:
            print(text, repr(rate), t, repr(float(schedule.get_lr() if t == 0 else schedule())))
        schedule.step()


def of_formula(text, rate, formula):
    for t in STEPS:
        print(text, repr(rate), t, repr(float(formula(rate, t))))


def manual(at, values, unit=1):
    return lambda rate, t: rate * next((v for a, v in zip(at, values) if t // unit <= a), values[-1])


of_formula("constant", 0.3, lambda rate, t: rate)
of_paddle("exponential:gamma=0.9", 0.1, lr.ExponentialDecay(0.1, 0.9))
of_formula("exponential:gamma=0.5,steps=10", 0.1, lambda rate, t: rate * 0.5 ** (t / 10))
of_formula("exponential:gamma=0.5,steps=10,staircase=1", 0.1, lambda rate, t: rate * 0.5 ** (t // 10))
of_paddle("natural_exp:gamma=0.05", 0.1, lr.NaturalExpDecay(0.1, 0.05))
of_formula("natural_exp:gamma=0.5,steps=10,staircase=1", 0.1, lambda rate, t: rate * exp(-0.5 * (t // 10)))
of_paddle("inverse_time:gamma=0.3", 0.1, lr.InverseTimeDecay(0.1, 0.3))
of_formula("inverse_time:gamma=0.5,steps=7", 0.1, lambda rate, t: rate / (1 + 0.5 * t / 7))
of_paddle("polynomial:steps=20,end=0.001,power=2", 0.1, lr.PolynomialDecay(0.1, 20, 0.001, 2.0))
of_paddle("polynomial:steps=20,end=0.001,power=0.9,cycle=1", 0.1, lr.PolynomialDecay(0.1, 20, 0.001, 0.9, cycle=True))
of_paddle("cosine:steps=37", 0.1, lr.CosineAnnealingDecay(0.1, 37))
of_paddle("cosine:steps=10,end=0.01", 0.4, lr.CosineAnnealingDecay(0.4, 10, 0.01))
of_paddle("noam:d_model=512,warmup_steps=20", 2.0, lr.NoamDecay(512, 20, 2))
of_paddle("step:steps=10,gamma=0.3", 0.5, lr.StepDecay(0.5, 10, 0.3))
of_paddle("multi_step:at=5:19:30,gamma=0.3", 0.5, lr.MultiStepDecay(0.5, [5, 19, 30], 0.3))
of_paddle("piecewise:at=10:20,values=0.1:0.01:0.001", 1.0, lr.PiecewiseDecay([10, 20], [0.1, 0.01, 0.001]))
of_paddle("constant:warmup=10,warmup_start=0.02", 0.1, lr.LinearWarmup(0.1, 10, 0.02, 0.1))
of_paddle("cosine:steps=50,warmup=10", 0.1, lr.LinearWarmup(lr.CosineAnnealingDecay(0.1, 50), 10, 0.0, 0.1))
of_paddle("exponential:gamma=0.8,warmup=11,warmup_start=0.1,warmup_end=0.7", 0.2,
          lr.LinearWarmup(lr.ExponentialDecay(0.2, 0.8), 11, 0.1, 0.7))
of_formula("poly:a=0.3,b=0.5", 0.1, lambda rate, t: rate * (1 + 0.3 * t) ** -0.5)
of_formula("caffe_poly:a=25,b=2", 0.1, lambda rate, t: rate * (1 - t / 25) ** 2 if t <= 25 else 0)
of_formula("exp:a=0.5,b=10", 0.1, lambda rate, t: rate * 0.5 ** (t / 10))
of_formula("discexp:a=0.5,b=10", 0.1, lambda rate, t: rate * 0.5 ** floor(t / 10))
of_formula("linear:a=0.004,b=0.03", 0.1, lambda rate, t: max(rate - 0.004 * t, 0.03))
of_formula("manual:at=9:20,values=1:0.5", 0.1, manual([9, 20], [1, 0.5]))
of_formula("pass_manual:steps=10,at=0:1:2,values=1:0.5:0.25", 0.1, manual([0, 1, 2], [1, 0.5, 0.25], 10))
