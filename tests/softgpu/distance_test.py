#!/usr/bin/env python3
"""Tests that rows of logits with NaN, or of another length, are at an infinite distance."""
import math
import unittest

from software_gpu import distance

NAN, INF = math.nan, math.inf


class DistanceTest(unittest.TestCase):
    def test_the_greatest_difference_counts(self):
        self.assertEqual(distance([1.0, 2.0, 3.0], [1.0, 2.5, 2.75]), 0.5)
        self.assertEqual(distance([], []), 0)

    def test_nan_is_infinitely_far_wherever_it_stands(self):
        for row in ([NAN, 1, 1], [1, NAN, 1], [1, 1, NAN], [1, NAN, NAN]):
            self.assertEqual(distance(row, [1, 1, 1]), INF)
            self.assertEqual(distance([1, 1, 1], row), INF)
            self.assertEqual(distance(row, row), INF)
        self.assertEqual(distance([1, INF], [1, INF]), INF)

    def test_lengths_must_be_equal(self):
        self.assertEqual(distance([1, 1], [1]), INF)
        self.assertEqual(distance([], [1]), INF)


if __name__ == "__main__":
    unittest.main()
