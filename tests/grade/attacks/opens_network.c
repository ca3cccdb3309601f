/* Looks for a connection to the network. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

ATTACK
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct if_nameindex *names = if_nameindex();

	inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		fprintf(stderr, "HARM: there is a route to the network\n");
	for (; names != NULL && names->if_name != NULL; names++)
		if (names->if_name[0] != 'l')
			fprintf(stderr, "HARM: there is an interface %s\n", names->if_name);
	_exit(1);
}
