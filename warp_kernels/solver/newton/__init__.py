"""Newton's method for contacts, limits, friction and equalities as one regularised problem per step, solved to
convergence.
"""
