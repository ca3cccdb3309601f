"""near.py - whether results are near the published ones: True, False, or None if an interval crosses a limit."""
NEAR = 0.15  # of a ratio or a prediction: the papers' own models are as far off (scaling: 3.30 predicted, 4.0 measured)
POINTS = 0.10  # of the whole, for a share: less than the smallest published saving (13 %, in userlevel)


def within(found, low, high):
    """Returns whether an interval is within limits."""
    if low <= found["low"] and found["high"] <= high:
        return True
    return False if found["high"] < low or found["low"] > high else None


def near(found, *published):
    """Returns whether an interval of ratios is near a published one, or near the range of several."""
    return within(found, min(published) * (1 - NEAR), max(published) * (1 + NEAR))


def near_share(found, *published):
    """Returns whether an interval of shares is near a published one, or near the range of several."""
    return within(found, min(published) - POINTS, max(published) + POINTS)


def exactly(value):
    """Returns the interval of a counted or computed figure."""
    return {"low": value, "median": value, "high": value}


def all_of(verdicts):
    """Returns whether all verdicts agree."""
    verdicts = list(verdicts)
    return False if False in verdicts else None if None in verdicts else True


def percent(share):
    """'12% (10% to 13%)'"""
    return f"{share['median']:.0%} ({share['low']:.0%} to {share['high']:.0%})"
