// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of the distributions that threshold estimators assume. All of them count from
// above, because that is what a density asks for, and because 1 - 1e-20 is 1.
#pragma once

namespace topknot::core {

/// The share of a standard normal above `z`.
double normal_tail(double z);

/// The `z` with a share `q` of a standard normal above it, to some 1e-13 of |z| for q
/// within 1e-300 of 0 and 1e-15 of 1; an infinity for q <= 0 and q >= 1.
double normal_quantile(double q);

/// The `t` with a share `q` of |x| above it, when x is normal with this mean and standard
/// deviation: both tails together. |mean| when `deviation` is 0.
double normal_magnitude_quantile(double mean, double deviation, double q);

/// ln Gamma(x) for x > 0. std::lgamma() writes a global variable.
double log_gamma(double x);

/// The share of a gamma distribution of this shape and of scale 1 above `x`; `shape` is
/// positive and at most 1e5.
double gamma_tail(double shape, double x);

/// The `x` with a share `q` of a gamma distribution of this shape and of scale 1 above
/// it, to 1e-9 of x, or 1e-4 where `shape` is above 1e5. It is 0 for q >= 1 and infinity
/// for q <= 0.
double gamma_quantile(double shape, double q);

}  // namespace topknot::core
