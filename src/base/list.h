// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_LIST_H
#define BASE_LIST_H

/*
 * Intrusive doubly linked circular lists.  A zeroed node is unlinked: list_del on it is harmless,
 * so a half-built object can always be freed.
 */

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

static inline void list_init(struct list *head)
{
	head->prev = head->next = head;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head || !head->next;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next && node->next != node;
}

/** list_add_before - link @node in front of @at; with a head as @at that is the tail */
static inline void list_add_before(struct list *at, struct list *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
}

static inline void list_append(struct list *head, struct list *node)
{
	list_add_before(head, node);
}

static inline void list_del(struct list *node)
{
	if (!node->next)
		return;
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = node->next = NULL;
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#define list_for_each(it, head, member)                                                     \
	for (it = list_entry((head)->next, __typeof__(*it), member); &it->member != (head); \
	     it = list_entry(it->member.next, __typeof__(*it), member))

#define list_for_each_safe(it, tmp, head, member)                       \
	for (it = list_entry((head)->next, __typeof__(*it), member),    \
	    tmp = list_entry(it->member.next, __typeof__(*it), member); \
	     &it->member != (head);                                     \
	     it = tmp, tmp = list_entry(it->member.next, __typeof__(*it), member))

#endif
