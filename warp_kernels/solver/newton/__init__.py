"""Contact, limits, friction and equalities as one problem per step, regularised and solved to the end by Newton's method."""
