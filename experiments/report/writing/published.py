"""published.py - the figures of M. Björkman, "Interrupt Protocol Processing in the x-kernel", 1994, tables 1 to 8.

Times are in microseconds, except table 1's processor cycles. Table 7 repeats figures of tables 4 and 6.
"""

TABLE1 = (
    ("DECstation, Mach3 MK82", "425 to 500"),
    ("DEC Alpha, OSF/1 1.3", "121 to 1158"),
    ("Intel Paragon i860, OSF1", "2300 and more"),
)
DECSTATION_SWITCH = 500  # cycles, the upper bound
TABLE2 = {"stack": 3.6, "ipp_handoff": 32.2, "regular": 30.7}

RPC_SIZES = (1, 1000, 2000)
TABLE3 = {("regular", "-"): (891, 4862, 8431), ("ipp", "client"): (845, 4821, 8384)}

SIZES = (1, 1000, 2000, 4000)
TABLE4 = {
    ("regular", "-"): (762, 4647, 7857, 11735),
    ("ipp", "client"): (728, 4627, 7840, 11709),
    ("ipp", "server"): (728, 4628, 7845, 11711),
    ("ipp", "none"): (664, 4561, 7809, 11647),
}

ROUNDS = 10000
# By input threads, for ROUNDS messages: (context switches, messages received including fragments) at each size.
TABLE5 = {
    1: ((10001, 10004), (10004, 10014), (10011, 20023), (10019, 30042)),
    2: ((10002, 10002), (10005, 10005), (20017, 20017), (30027, 30027)),
}
THREADS = (1, 2, 3, 4, 8)
TABLE6 = {
    1: (762, 4647, 7857, 11735),
    2: (761, 4651, 7911, 11829),
    3: (762, 4650, 7925, 11847),
    4: (767, 4664, 7933, 11866),
    8: (775, 4682, 7964, 11929),
}
TABLE7 = {
    ("regular", 1): (762, 4647, 7857, 11735),
    ("regular", 3): (762, 4650, 7925, 11847),
    ("ipp", 1): (664, 4561, 7809, 11647),
    ("ipp", 3): (662, 4564, 7811, 11636),
}

BLAST_SIZES = (8, 1024, 2048)
TABLE8 = {("regular", "-"): (500, 625, 741), ("ipp", "none"): (237, 353, 492)}
