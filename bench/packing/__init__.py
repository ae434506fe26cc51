"""How full a placement packs the cards of a production trace, `python -m bench.packing`.

`trace` reads it, `checker` counts for itself and refuses what is over, `run` feeds the arrivals,
`report` compares with the published results, `split` does it over four clusters.
"""
