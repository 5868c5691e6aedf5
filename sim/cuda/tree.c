// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/tree.h"

#include "base/rand.h"

static struct rand_state weights = { 1 };

static void split(struct sim_alloc *root, CUdeviceptr at, struct sim_alloc **ret_low,
		  struct sim_alloc **ret_high)
{
	/* iterative: low collects along right links, high along left links */
	while (root) {
		if (root->base < at) {
			*ret_low = root;
			ret_low = &root->right;
			root = root->right;
		} else {
			*ret_high = root;
			ret_high = &root->left;
			root = root->left;
		}
	}
	*ret_low = NULL;
	*ret_high = NULL;
}

static struct sim_alloc *merge(struct sim_alloc *low, struct sim_alloc *high)
{
	struct sim_alloc *root = NULL, **at = &root;

	while (low && high) {
		if (low->weight > high->weight) {
			*at = low;
			at = &low->right;
			low = low->right;
		} else {
			*at = high;
			at = &high->left;
			high = high->left;
		}
	}
	*at = low ? low : high;
	return root;
}

void tree_insert(struct sim_alloc **root, struct sim_alloc *alloc)
{
	struct sim_alloc **at = root;

	alloc->weight = (uint32_t)rand_next(&weights);
	while (*at && (*at)->weight >= alloc->weight)
		at = (*at)->base < alloc->base ? &(*at)->right : &(*at)->left;
	split(*at, alloc->base, &alloc->left, &alloc->right);
	*at = alloc;
}

void tree_remove(struct sim_alloc **root, struct sim_alloc *alloc)
{
	struct sim_alloc **at = root;

	while (*at && *at != alloc)
		at = (*at)->base < alloc->base ? &(*at)->right : &(*at)->left;
	if (*at)
		*at = merge(alloc->left, alloc->right);
	alloc->left = alloc->right = NULL;
}

struct sim_alloc *tree_find(struct sim_alloc *root, CUdeviceptr at)
{
	while (root) {
		if (at < root->base)
			root = root->left;
		else if (at - root->base < root->mapped_bytes)
			return root;
		else
			root = root->right;
	}
	return NULL;
}

struct sim_alloc *tree_next(struct sim_alloc *root, CUdeviceptr at)
{
	struct sim_alloc *found = NULL;

	while (root) {
		if (root->base >= at) {
			found = root;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return found;
}
