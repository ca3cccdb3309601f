/*
 * sys/queue.h for C libraries without one (musl): the BSD macros that this project uses. Elsewhere, the library's own
 * is used.
 */
#ifndef XK_COMPAT_SYS_QUEUE_H
#define XK_COMPAT_SYS_QUEUE_H

#include <stddef.h>

/* ---- singly-linked lists ---- */

#define SLIST_HEAD(name, type)                                                                                         \
	struct name {                                                                                                  \
		struct type *slh_first;                                                                                \
	}
#define SLIST_ENTRY(type)                                                                                              \
	struct {                                                                                                       \
		struct type *sle_next;                                                                                 \
	}
#define SLIST_FIRST(head) ((head)->slh_first)
#define SLIST_EMPTY(head) ((head)->slh_first == NULL)
#define SLIST_NEXT(element, field) ((element)->field.sle_next)
#define SLIST_INSERT_HEAD(head, element, field)                                                                        \
	do {                                                                                                           \
		(element)->field.sle_next = (head)->slh_first;                                                         \
		(head)->slh_first = (element);                                                                         \
	} while (0)
#define SLIST_REMOVE_HEAD(head, field) ((head)->slh_first = (head)->slh_first->field.sle_next)
#define SLIST_REMOVE(head, element, type, field)                                                                       \
	do {                                                                                                           \
		struct type **slist_at = &(head)->slh_first;                                                           \
		while (*slist_at != (element))                                                                         \
			slist_at = &(*slist_at)->field.sle_next;                                                       \
		*slist_at = (element)->field.sle_next;                                                                 \
	} while (0)

/* ---- singly-linked queues ---- */

#define STAILQ_HEAD(name, type)                                                                                        \
	struct name {                                                                                                  \
		struct type *stqh_first, **stqh_last;                                                                  \
	}
#define STAILQ_ENTRY(type)                                                                                             \
	struct {                                                                                                       \
		struct type *stqe_next;                                                                                \
	}
#define STAILQ_FIRST(head) ((head)->stqh_first)
#define STAILQ_NEXT(element, field) ((element)->field.stqe_next)
#define STAILQ_INIT(head) ((head)->stqh_first = NULL, (head)->stqh_last = &(head)->stqh_first)
#define STAILQ_INSERT_TAIL(head, element, field)                                                                       \
	do {                                                                                                           \
		(element)->field.stqe_next = NULL;                                                                     \
		*(head)->stqh_last = (element);                                                                        \
		(head)->stqh_last = &(element)->field.stqe_next;                                                       \
	} while (0)
#define STAILQ_REMOVE_HEAD(head, field)                                                                                \
	do {                                                                                                           \
		if (((head)->stqh_first = (head)->stqh_first->field.stqe_next) == NULL)                                \
			(head)->stqh_last = &(head)->stqh_first;                                                       \
	} while (0)
#define STAILQ_CONCAT(to, from)                                                                                        \
	do {                                                                                                           \
		if ((from)->stqh_first != NULL) {                                                                      \
			*(to)->stqh_last = (from)->stqh_first;                                                         \
			(to)->stqh_last = (from)->stqh_last;                                                           \
			STAILQ_INIT(from);                                                                             \
		}                                                                                                      \
	} while (0)

/* ---- lists ---- */

#define LIST_HEAD(name, type)                                                                                          \
	struct name {                                                                                                  \
		struct type *lh_first;                                                                                 \
	}
#define LIST_ENTRY(type)                                                                                               \
	struct {                                                                                                       \
		struct type *le_next, **le_prev;                                                                       \
	}
#define LIST_FIRST(head) ((head)->lh_first)
#define LIST_EMPTY(head) ((head)->lh_first == NULL)
#define LIST_NEXT(element, field) ((element)->field.le_next)
#define LIST_FOREACH(each, head, field) for ((each) = (head)->lh_first; (each) != NULL; (each) = (each)->field.le_next)
#define LIST_INIT(head) ((head)->lh_first = NULL)
#define LIST_INSERT_HEAD(head, element, field)                                                                         \
	do {                                                                                                           \
		if (((element)->field.le_next = (head)->lh_first) != NULL)                                             \
			(head)->lh_first->field.le_prev = &(element)->field.le_next;                                   \
		(head)->lh_first = (element);                                                                          \
		(element)->field.le_prev = &(head)->lh_first;                                                          \
	} while (0)
#define LIST_REMOVE(element, field)                                                                                    \
	do {                                                                                                           \
		if ((element)->field.le_next != NULL)                                                                  \
			(element)->field.le_next->field.le_prev = (element)->field.le_prev;                            \
		*(element)->field.le_prev = (element)->field.le_next;                                                  \
	} while (0)

/* ---- queues ---- */

#define TAILQ_HEAD(name, type)                                                                                         \
	struct name {                                                                                                  \
		struct type *tqh_first, **tqh_last;                                                                    \
	}
#define TAILQ_HEAD_INITIALIZER(head)                                                                                   \
	{                                                                                                              \
		NULL, &(head).tqh_first                                                                                \
	}
#define TAILQ_ENTRY(type)                                                                                              \
	struct {                                                                                                       \
		struct type *tqe_next, **tqe_prev;                                                                     \
	}
#define TAILQ_FIRST(head) ((head)->tqh_first)
#define TAILQ_EMPTY(head) ((head)->tqh_first == NULL)
#define TAILQ_NEXT(element, field) ((element)->field.tqe_next)
/* Entries and heads begin alike, so an entry's predecessor is found as a head's last. */
#define TAILQ_LAST(head, name) (*((struct name *)(void *)(head)->tqh_last)->tqh_last)
#define TAILQ_PREV(element, name, field) (*((struct name *)(void *)(element)->field.tqe_prev)->tqh_last)
#define TAILQ_FOREACH(each, head, field)                                                                               \
	for ((each) = (head)->tqh_first; (each) != NULL; (each) = (each)->field.tqe_next)
#define TAILQ_FOREACH_REVERSE(each, head, name, field)                                                                 \
	for ((each) = TAILQ_LAST(head, name); (each) != NULL; (each) = TAILQ_PREV(each, name, field))
#define TAILQ_INIT(head) ((head)->tqh_first = NULL, (head)->tqh_last = &(head)->tqh_first)
#define TAILQ_INSERT_HEAD(head, element, field)                                                                        \
	do {                                                                                                           \
		if (((element)->field.tqe_next = (head)->tqh_first) != NULL)                                           \
			(head)->tqh_first->field.tqe_prev = &(element)->field.tqe_next;                                \
		else                                                                                                   \
			(head)->tqh_last = &(element)->field.tqe_next;                                                 \
		(head)->tqh_first = (element);                                                                         \
		(element)->field.tqe_prev = &(head)->tqh_first;                                                        \
	} while (0)
#define TAILQ_INSERT_TAIL(head, element, field)                                                                        \
	do {                                                                                                           \
		(element)->field.tqe_next = NULL;                                                                      \
		(element)->field.tqe_prev = (head)->tqh_last;                                                          \
		*(head)->tqh_last = (element);                                                                         \
		(head)->tqh_last = &(element)->field.tqe_next;                                                         \
	} while (0)
#define TAILQ_INSERT_AFTER(head, after, element, field)                                                                \
	do {                                                                                                           \
		if (((element)->field.tqe_next = (after)->field.tqe_next) != NULL)                                     \
			(element)->field.tqe_next->field.tqe_prev = &(element)->field.tqe_next;                        \
		else                                                                                                   \
			(head)->tqh_last = &(element)->field.tqe_next;                                                 \
		(after)->field.tqe_next = (element);                                                                   \
		(element)->field.tqe_prev = &(after)->field.tqe_next;                                                  \
	} while (0)
#define TAILQ_REMOVE(head, element, field)                                                                             \
	do {                                                                                                           \
		if ((element)->field.tqe_next != NULL)                                                                 \
			(element)->field.tqe_next->field.tqe_prev = (element)->field.tqe_prev;                         \
		else                                                                                                   \
			(head)->tqh_last = (element)->field.tqe_prev;                                                  \
		*(element)->field.tqe_prev = (element)->field.tqe_next;                                                \
	} while (0)

#endif
