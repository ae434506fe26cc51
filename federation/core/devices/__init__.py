"""vGPU accounting, PURE: which cards there are, what pods ask of them, who holds what.

`cards` and `wants` are the vocabulary. Memory is MiB, compute is percent of one card, a slot is a
place for one container on a card. Everything here is a value or changes by explicit calls only;
time is an argument. The numbers follow HAMi's conventions unless docs/decisions says otherwise.
"""
