# SPDX-License-Identifier: Apache-2.0
# Examples that are read, built and run: the shortest way from nothing to a trained model.
