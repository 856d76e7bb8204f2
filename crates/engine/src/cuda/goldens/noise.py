"""Writes noise.txt: what the noise makes of sums that lie wherever rounding is hardest, by mpmath with 200 digits.

ChaCha20 is written out here from Bernstein's paper, the noise from its definition: round(x / s + deviation * sqrt(-2 ln U1) (cos, sin)(theta)).
Every second pair is placed as near to a half-integer as a float can be, where double precision cannot decide.
"""

import pathlib
import random
import struct

from mpmath import mp, mpf

mp.prec = 700
PAIRS = 512
COORDINATES = 2 * PAIRS + 700
FURTHER_BITS = 1 << 63
LATTICE = 2.0**-10
DEVIATION = 1733.25


def chacha_block(key, stream, counter):
    def rotate(value, by):
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def quarter(s, a, b, c, d):
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            s[z] = rotate(s[z] ^ s[x], by)

    start = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key))
    start += [counter, 0, stream & 0xFFFFFFFF, stream >> 32]
    state = start[:]
    for _ in range(10):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(start, state)]


def words(key, stream, count):
    return [word for block in range((count + 15) // 16) for word in chacha_block(key, stream, block)][:count]


def number(word, known, further):
    """The number in (0, 1) with these first digits and 128 more, at the middle of what is left open."""
    digits = word << 128 | further[1] << 96 | further[0] << 64 | further[3] << 32 | further[2]
    return (mpf(digits) + mpf(1) / 2) / mpf(2) ** (known + 128)


def pair_noise(key, index, radius_word, angle_word):
    further = words(key, FURTHER_BITS | index, 8)
    radius = mp.sqrt(-2 * mp.log(number(radius_word, 32, further[:4])))
    place = number(angle_word & 0x3FFFFFFF, 30, further[4:]) - mpf(1) / 2
    theta = ((angle_word >> 30) + place) * mp.pi / 2
    return radius * mp.cos(theta) * DEVIATION, radius * mp.sin(theta) * DEVIATION


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def main():
    key = bytes((37 * i + 11) % 256 for i in range(32))
    source = random.Random(20)
    sums, results = [0.0] * COORDINATES, [0.0] * COORDINATES
    for chunk in range(0, COORDINATES, 2 * PAIRS):
        stream = words(key, chunk // (2 * PAIRS), 2 * PAIRS)
        for pair in range(PAIRS):
            noise = pair_noise(key, chunk // 2 + pair, stream[pair], stream[PAIRS + pair])
            for half in (0, 1):
                at = chunk + half * PAIRS + pair
                if at >= COORDINATES:
                    continue
                if pair % 2:
                    # Near the half-integer next to the noise itself, so that x is small and its float is fine.
                    wanted = (mp.floor(noise[half]) + mpf(1) / 2 - noise[half]) * LATTICE
                    sums[at] = single(float(wanted))
                else:
                    sums[at] = single(source.uniform(-40, 40))
                whole = mp.nint(mpf(sums[at]) / LATTICE + noise[half])
                results[at] = single(float(whole * LATTICE))
    lines = [f"{key.hex()} {LATTICE!r} {DEVIATION!r}"]
    lines += [f"{bits(x):08x} {bits(y):08x}" for x, y in zip(sums, results)]
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
