// SPDX-License-Identifier: Apache-2.0
//
// None of this is called more than a few times for a sweep over millions of coordinates:
// a rough start and a few steps of Newton's method, within a bracket and never more than
// a fixed number, are better here than long tables of coefficients.
#include "core/quantile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace topknot::core {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

constexpr double kLargestShape = 1e5;  // beyond, the cube root of a gamma is normal
constexpr int kMostTerms = 5000;       // of a series; about 8 sqrt(shape) are needed
constexpr int kMostSteps = 100;

// Within 4.5e-4 of the quantile for q in (0, 1/2]: Hastings' approximation of 1955,
// number 26.2.23 in Abramowitz and Stegun.
double rough_normal_quantile(double q) {
  const double t = std::sqrt(-2 * std::log(q));
  const double above = 2.515517 + t * (0.802853 + t * 0.010328);
  const double below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
  return t - above / below;
}

// x^a e^-x / Gamma(a + 1).
double gamma_front(double a, double x) {
  return std::exp(a * std::log(x) - x - log_gamma(a + 1));
}

// The share below x, by its power series: good for x < a + 1.
double gamma_series(double a, double x) {
  double term = 1;
  double sum = 1;
  for (int i = 1; i < kMostTerms && term > sum * 1e-17; ++i) {
    term *= x / (a + i);
    sum += term;
  }
  return sum * gamma_front(a, x);
}

// The share above x, by the continued fraction x + 1 - a - 1(1 - a)/(x + 3 - a - ...),
// evaluated from the front: good for x >= a + 1.
double gamma_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / b;
  double fraction = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    if (std::abs(d) < kTiny) d = kTiny;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    const double factor = d * c;
    fraction *= factor;
    if (std::abs(factor - 1) < 1e-16) break;
  }
  return fraction * gamma_front(a, x) * a;
}

// Wilson and Hilferty: the cube root of a gamma variable is nearly normal. For small
// shapes the first term of the series does better.
double rough_gamma_quantile(double a, double q) {
  const double ninth = 1 / (9 * a);
  const double root = 1 - ninth + normal_quantile(q) * std::sqrt(ninth);
  if (root > 0.3) return a * root * root * root;
  return std::exp((std::log1p(-q) + log_gamma(a + 1)) / a);
}

}  // namespace

double normal_tail(double z) { return 0.5 * std::erfc(z * std::numbers::sqrt2 / 2); }

double normal_quantile(double q) {
  if (!(q > 0)) return kInfinity;
  if (q >= 1) return -kInfinity;
  if (q > 0.5) return -normal_quantile(1 - q);
  double z = rough_normal_quantile(q);
  // Halley's step trebles the number of correct digits: 4, 12, all.
  for (int i = 0; i < 2; ++i) {
    const double density = std::exp(-0.5 * z * z - kLogSqrtTwoPi);
    const double step = (normal_tail(z) - q) / density;
    z += step / (1 - 0.5 * z * step);
  }
  return z;
}

double normal_magnitude_quantile(double mean, double deviation, double q) {
  mean = std::abs(mean);
  if (!(deviation > 0)) return mean;
  // With the mean at zero each tail has q/2; with the mean far away one of them has all.
  double low = std::max(0.0, mean + deviation * normal_quantile(q));
  double high = mean + deviation * normal_quantile(q / 2);
  if (!(high < kInfinity)) return high;
  for (int i = 0; i < kMostSteps && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    const double above = normal_tail((middle - mean) / deviation) +
                         normal_tail((middle + mean) / deviation);
    if (middle == low || middle == high) break;
    (above > q ? low : high) = middle;
  }
  return high;
}

double log_gamma(double x) {
  // Stirling's series wants a large x: Gamma(x) = Gamma(x + 1) / x takes us there.
  double product = 1;
  for (; x < 12; ++x) product *= x;
  const double i2 = 1 / (x * x);
  const double series =
      (1.0 / 12 - i2 * (1.0 / 360 - i2 * (1.0 / 1260 - i2 * (1.0 / 1680 - i2 / 1188)))) /
      x;
  return (x - 0.5) * std::log(x) - x + kLogSqrtTwoPi + series - std::log(product);
}

double gamma_tail(double shape, double x) {
  if (!(x > 0)) return 1;
  if (x < shape + 1) return 1 - gamma_series(shape, x);
  return gamma_fraction(shape, x);
}

double gamma_quantile(double shape, double q) {
  if (!(q > 0)) return kInfinity;
  if (q >= 1) return 0;
  double x = rough_gamma_quantile(shape, q);
  if (shape > kLargestShape) return x;
  double low = 0;
  double high = kInfinity;
  for (int i = 0; i < kMostSteps; ++i) {
    const double excess = gamma_tail(shape, x) - q;
    (excess > 0 ? low : high) = x;
    const double density = gamma_front(shape, x) * shape / x;
    double next = x + excess / density;
    if (!(next > low && next < high))
      next = high < kInfinity ? low + (high - low) / 2 : 2 * x;
    if (std::abs(next - x) <= 1e-14 * x) return next;
    x = next;
  }
  return x;
}

}  // namespace topknot::core
