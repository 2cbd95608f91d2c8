package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Members of Kafka that are not public. Another version may have renamed them: it says which. */
final class Reach {

    private Reach() { }

    static Class<?> type(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            throw new IllegalStateException("this Kafka has no " + name, missing);
        }
    }

    static Constructor<?> constructor(Class<?> owner, Class<?>... parameters) {
        try {
            Constructor<?> constructor = owner.getDeclaredConstructor(parameters);
            constructor.setAccessible(true);
            return constructor;
        } catch (NoSuchMethodException missing) {
            throw new IllegalStateException("this Kafka's " + owner.getName() + " is made otherwise", missing);
        }
    }

    static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            Method method = owner.getDeclaredMethod(name, parameters);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException missing) {
            throw new IllegalStateException("this Kafka's " + owner.getName() + " has no method " + name, missing);
        }
    }

    static Field field(Class<?> owner, String name) {
        try {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException missing) {
            throw new IllegalStateException("this Kafka's " + owner.getName() + " has no field " + name, missing);
        }
    }
}
